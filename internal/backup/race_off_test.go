//go:build !race

package backup

// stride is how many bytes apart the faults are.
const stride = 1
