//go:build !race

package verify

// stride is how many bytes apart the damage is.
const stride = 1
