//go:build race

package verify

// stride is how many bytes apart the damage is: the race detector makes each verification ten times slower.
const stride = 17
