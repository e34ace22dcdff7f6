package progress

import (
	"encoding/json"
	"math"
	"sync"
	"time"
)

// line is one line of the json mode. MB are 10^6 bytes.
type line struct {
	Title   string   `json:"title"`
	Phase   string   `json:"phase"`
	Raw     int64    `json:"raw_bytes"`
	Stored  int64    `json:"stored_bytes"`
	Total   int64    `json:"total_bytes"` // 0: unknown
	In      float64  `json:"mbps_in"`
	Out     float64  `json:"mbps_out"`
	Left    *float64 `json:"eta_seconds"` // null: unknown
	Elapsed float64  `json:"elapsed_seconds"`
	Done    bool     `json:"done"`
}

// lines is the view for programs: a line every second, one at each change of phase, and a last one.
type lines struct {
	r    *Reporter
	quit chan struct{}
	wait sync.WaitGroup
}

func newLines(r *Reporter) *lines {
	v := &lines{r: r, quit: make(chan struct{})}
	v.wait.Go(v.run)
	return v
}

// run writes a line every second until quit is closed.
func (v *lines) run() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-v.quit:
			return
		case <-tick.C:
			v.r.mu.Lock()
			v.write(false)
			v.r.mu.Unlock()
		}
	}
}

func (v *lines) phaseChanged() { v.write(false) }

func (v *lines) log(p []byte) error { return silent{v.r}.log(p) }

func (v *lines) stop() {
	close(v.quit)
	v.wait.Wait()
	v.r.mu.Lock()
	defer v.r.mu.Unlock()
	v.write(true)
}

// write writes one line. Nobody is served by ending a backup because its progress can't be shown: a failing write is
// left to fail.
func (v *lines) write(done bool) {
	s := v.r.snap()
	l := line{Title: v.r.title, Phase: s.phase, Raw: s.raw, Stored: s.stored, Total: s.total, Done: done,
		In: tenth(s.in / 1e6), Out: tenth(s.out / 1e6), Elapsed: tenth(s.elapsed.Seconds())}
	if s.left >= 0 {
		left := tenth(s.left.Seconds())
		l.Left = &left
	}
	text, err := json.Marshal(l)
	if err != nil {
		panic("progress: internal error: " + err.Error())
	}
	_, _ = v.r.out.Write(append(text, '\n'))
}

// tenth rounds v to one decimal.
func tenth(v float64) float64 { return math.Round(v*10) / 10 }
