package gendata

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes that a flag sets, such as "800M": K, M and G stand for powers of 1024.
type Size int64

// Set implements flag.Value.
func (s *Size) Set(text string) error {
	digits := strings.TrimRight(text, "KMG")
	unit := map[string]int64{"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[text[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 1 || unit == 0 {
		return fmt.Errorf("size %q: want a number such as 800M or 20G", text)
	}
	*s = Size(n * unit)
	return nil
}

// String implements flag.Value.
func (s *Size) String() string {
	n := int64(*s)
	for _, unit := range []string{"", "K", "M"} {
		if n%1024 != 0 || n == 0 {
			return strconv.FormatInt(n, 10) + unit
		}
		n /= 1024
	}
	return strconv.FormatInt(n, 10) + "G"
}
