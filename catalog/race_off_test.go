//go:build !race

package catalog

// raceDetector tells that everything is slow.
const raceDetector = false
