package progress

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Size writes n bytes for people: decimal units, so that 1 MB is a million bytes, and three digits at most before the
// unit ("512 B", "1.4 GB", "128 MB").
func Size(n int64) string {
	if n < 0 {
		if n == math.MinInt64 {
			n++
		}
		return "-" + Size(-n)
	}
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n), 0
	for _, limit := range [...]float64{999.5, 999.5, 999.5, 999.5, 999.5, math.Inf(1)} {
		v, unit = v/1000, unit+1
		if v < limit {
			break
		}
	}
	return threeDigits(v) + " " + string("kMGTPE"[unit-1]) + "B"
}

// threeDigits writes v with one decimal below 99.95, else without any.
func threeDigits(v float64) string {
	if v < 99.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// Rate writes n bytes in d as a speed ("410 MB/s"), or "-" when d is not positive, because then no speed is known.
func Rate(n int64, d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return speed(float64(n) / d.Seconds())
}

// speed writes bytes per second.
func speed(v float64) string {
	return Size(int64(math.Min(v, math.MaxInt64/2))) + "/s"
}

// Ratio writes how many times smaller stored is than raw ("3.4x"), or "-" when either is not positive.
func Ratio(raw, stored int64) string {
	if raw <= 0 || stored <= 0 {
		return "-"
	}
	v := float64(raw) / float64(stored)
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 2, 64) + "x"
	}
	return threeDigits(v) + "x"
}

// Duration writes d for people, with two units at most: "340 ms", "12.3 s", "4m05s", "2h03m", "3d04h".
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(max(-d, 0))
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 59950*time.Millisecond:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour-time.Second/2:
		return pair(d, time.Second, "%dm%02ds", 60)
	case d < 24*time.Hour-time.Minute/2:
		return pair(d, time.Minute, "%dh%02dm", 60)
	}
	return pair(d, time.Hour, "%dd%02dh", 24)
}

// pair writes d, rounded to whole small units, as large and small units; base small units make a large one.
func pair(d, small time.Duration, format string, base int64) string {
	n := int64(d.Round(small) / small)
	return fmt.Sprintf(format, n/base, n%base)
}
