// Package progress shows how far a run has come: a bar on a terminal, or one JSON object a line for programs. It also
// has the words for sizes, speeds and durations that people read. It knows nothing of backups: others count for it.
package progress

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Mode says how progress is shown.
type Mode string

// The modes. Auto is a bar on a terminal and nothing elsewhere.
const (
	Auto Mode = "auto"
	Bar  Mode = "bar"
	JSON Mode = "json"
	None Mode = "none"
)

// ParseMode returns the mode called s; "" is Auto.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "":
		return Auto, nil
	case Auto, Bar, JSON, None:
		return m, nil
	}
	return "", fmt.Errorf("unknown progress mode %q: want auto, bar, json or none", s)
}

// Options says what is shown and where.
type Options struct {
	Mode       Mode      // "" is Auto
	Out        io.Writer // where progress and the lines given to Writer go, normally standard error; nil discards both
	IsTerminal bool      // Out is a terminal
	Total      int64     // raw bytes expected; 0 when unknown. It may be wrong: the display survives that
	Title      string    // what the run does, in a word or two; shown until there is a phase
}

// Reporter counts and shows. All methods are safe for concurrent use, cost little (counting is one atomic addition), and
// do nothing on a nil Reporter, so that those who count need not know whether anyone looks.
type Reporter struct {
	title              string
	start              time.Time
	raw, stored, total atomic.Int64

	state sync.Mutex // guards phase and meter. Taken after mu when both are needed, never held while writing
	phase string
	meter meter

	mu   sync.Mutex // guards done, and orders what is written to out
	out  io.Writer
	view view
	done bool
}

// view is one way of showing. Its methods are called with the Reporter's lock held, except stop.
type view interface {
	phaseChanged()      // show the new phase now
	log(p []byte) error // p is one or more whole lines
	stop()              // end every goroutine and leave the terminal clean; called once, without the lock
}

// New starts showing. The caller must call Done at the end.
func New(o Options) *Reporter {
	r := &Reporter{title: o.Title, start: time.Now(), out: o.Out}
	if r.out == nil {
		r.out = io.Discard
	}
	r.total.Store(o.Total)
	r.meter.add(sample{at: r.start})
	switch {
	case o.Mode == JSON:
		r.view = newLines(r)
	case o.Mode == Bar, (o.Mode == Auto || o.Mode == "") && o.IsTerminal:
		r.view = newBar(r, o.IsTerminal)
	default:
		r.view = silent{r}
	}
	return r
}

// AddRaw counts n more bytes on the uncompressed side: read from the source, or written by a restore.
func (r *Reporter) AddRaw(n int64) {
	if r != nil {
		r.raw.Add(n)
	}
}

// AddStored counts n more bytes on the compressed side.
func (r *Reporter) AddStored(n int64) {
	if r != nil {
		r.stored.Add(n)
	}
}

// SetTotal replaces the number of raw bytes expected; 0 means unknown.
func (r *Reporter) SetTotal(n int64) {
	if r != nil {
		r.total.Store(n)
	}
}

// SetPhase names what is being done now. Naming the same phase again changes nothing.
func (r *Reporter) SetPhase(name string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done && r.enter(name) {
		r.view.phaseChanged()
	}
}

// enter makes name the phase and tells whether it was another one before.
func (r *Reporter) enter(name string) bool {
	r.state.Lock()
	defer r.state.Unlock()
	changed := r.phase != name
	r.phase = name
	return changed
}

// Done ends the display: a bar is wiped from the terminal, a last JSON line is written, and every goroutine has ended
// when Done returns. Later calls of any method are harmless; lines given to Writer still get out.
func (r *Reporter) Done() {
	if r == nil {
		return
	}
	r.mu.Lock()
	if r.done {
		r.mu.Unlock()
		return
	}
	r.done = true
	r.mu.Unlock()
	r.view.stop()
}

// snapshot is what a view shows.
type snapshot struct {
	phase              string
	label              string // phase, or the title before the first one
	raw, stored, total int64
	in, out            float64       // bytes per second, lately
	left               time.Duration // until the end; negative when unknown
	elapsed            time.Duration
}

// snap reads the counters.
func (r *Reporter) snap() snapshot {
	r.state.Lock()
	defer r.state.Unlock()
	now := sample{at: time.Now(), raw: r.raw.Load(), stored: r.stored.Load()}
	s := snapshot{phase: r.phase, label: r.phase, raw: now.raw, stored: now.stored, total: r.total.Load(), left: -1}
	if s.label == "" {
		s.label = r.title
	}
	s.elapsed = now.at.Sub(r.start)
	s.in, s.out = r.meter.since(recent, now)
	if speed, _ := r.meter.since(samples, now); speed >= 1 && s.total > s.raw {
		s.left = seconds(float64(s.total-s.raw) / speed)
	}
	r.meter.add(now)
	return s
}

// seconds turns v seconds into a duration; what would not fit is a century, which reads as badly.
func seconds(v float64) time.Duration {
	const century = 100 * 365 * 24 * time.Hour
	if v >= century.Seconds() {
		return century
	}
	return time.Duration(v * float64(time.Second))
}

// silent shows nothing.
type silent struct{ r *Reporter }

func (silent) phaseChanged() {}
func (silent) stop()         {}

func (s silent) log(p []byte) error {
	_, err := s.r.out.Write(p)
	return err
}
