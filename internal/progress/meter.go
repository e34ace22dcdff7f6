package progress

import "time"

// The meter keeps one sample a second for a while: long enough that a burst does not shake the remaining time, short
// enough that a change of speed is soon seen.
const (
	sampleEvery = time.Second
	samples     = 31 // for the remaining time
	recent      = 6  // for the speeds shown
)

// sample is the state of the counters at one moment.
type sample struct {
	at          time.Time
	raw, stored int64
}

// meter turns samples into speeds. It is not safe for concurrent use.
type meter struct {
	ring []sample // oldest first
}

// add records s if the last one kept is old enough.
func (m *meter) add(s sample) {
	if n := len(m.ring); n > 0 && s.at.Sub(m.ring[n-1].at) < sampleEvery {
		return
	}
	if len(m.ring) == samples {
		m.ring = append(m.ring[:0], m.ring[1:]...)
	}
	m.ring = append(m.ring, s)
}

// since returns the average speeds, in bytes per second, from the sample n places back until now.
func (m *meter) since(n int, now sample) (raw, stored float64) {
	if len(m.ring) == 0 {
		return 0, 0
	}
	from := m.ring[max(0, len(m.ring)-n)]
	seconds := now.at.Sub(from.at).Seconds()
	if seconds <= 0 {
		return 0, 0
	}
	return float64(now.raw-from.raw) / seconds, float64(now.stored-from.stored) / seconds
}
