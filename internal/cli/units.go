package cli

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// units are what may stand after a number of bytes, in lower case. Decimal ones are powers of 1000, those with an i of
// 1024; a lone letter is what mariadb-backup takes it for, which is the binary one.
var units = []struct {
	name  string
	bytes float64
}{
	{"", 1}, {"b", 1},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"pb", 1e15},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}, {"p", 1 << 50},
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40}, {"pib", 1 << 50},
}

// parseBytes reads a number of bytes with a unit.
func parseBytes(v string) (int64, error) {
	digits := strings.TrimRight(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.ToLower(strings.TrimSpace(v[len(digits):]))
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n >= 0 && unit == "" {
		return n, nil
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsNaN(n) || n < 0 {
		return 0, errors.New("want a size such as 64GiB or 500MB")
	}
	for _, u := range units {
		if u.name != unit {
			continue
		}
		if n*u.bytes >= math.MaxInt64 {
			return 0, errors.New("larger than any size")
		}
		return int64(n * u.bytes), nil
	}
	return 0, errors.New("want a size such as 64GiB or 500MB")
}

// formatBytes writes n in the largest binary unit that divides it, so that parseBytes reads it back.
func formatBytes(n int64) string {
	for i, name := range []string{"PiB", "TiB", "GiB", "MiB", "KiB"} {
		if unit := int64(1) << (50 - 10*i); n >= unit && n%unit == 0 {
			return strconv.FormatInt(n/unit, 10) + name
		}
	}
	return strconv.FormatInt(n, 10)
}

// parseSpan reads a duration; besides what Go writes it takes days ("7d"), and a lone 0.
func parseSpan(v string) (time.Duration, error) {
	whole := v
	var days float64
	if head, rest, ok := strings.Cut(v, "d"); ok {
		n, err := strconv.ParseFloat(head, 64)
		if err != nil || n < 0 || n > 36500 {
			return 0, errors.New("want a duration such as 90s, 26h or 2d")
		}
		days, whole = n, rest
	}
	var rest time.Duration
	if whole != "" {
		d, err := time.ParseDuration(whole)
		if err != nil || d < 0 {
			return 0, errors.New("want a duration such as 90s, 26h or 2d")
		}
		rest = d
	} else if v == "" {
		return 0, errors.New("want a duration such as 90s, 26h or 2d")
	}
	return time.Duration(days*24*float64(time.Hour)) + rest, nil
}

// formatSpan writes d without the units that are zero at its end, so that parseSpan reads it back.
func formatSpan(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// parseFraction reads a part of a whole: a percentage, or a number from 0 to 1.
func parseFraction(v string) (float64, error) {
	digits, percent := strings.CutSuffix(strings.TrimSpace(v), "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if percent {
		n /= 100
	}
	if err != nil || !(n >= 0 && n <= 1) {
		return 0, errors.New("want a part such as 10% or 0.1")
	}
	return n, nil
}
