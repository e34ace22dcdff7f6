//go:build !race

package restore_test

// raceDetector tells that everything takes ten times as long.
const raceDetector = false
