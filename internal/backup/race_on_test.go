//go:build race

package backup

// stride is how many bytes apart the faults are: the race detector makes each run ten times slower.
const stride = 13
