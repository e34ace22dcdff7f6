//go:build !race

package pipeline_test

// raceDetector tells that everything is slow and that sync.Pool drops things at random.
const raceDetector = false
