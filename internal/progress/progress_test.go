package progress

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// broken is a terminal that is gone.
type broken struct{}

var errGone = errors.New("terminal is gone")

func (broken) Write([]byte) (int, error) { return 0, errGone }

func TestParseMode(t *testing.T) {
	for in, want := range map[string]Mode{"": Auto, "auto": Auto, "bar": Bar, "json": JSON, "none": None} {
		if got, err := ParseMode(in); err != nil || got != want {
			t.Errorf("ParseMode(%q): got %q, %v, want %q", in, got, err, want)
		}
	}
	if _, err := ParseMode("fancy"); err == nil {
		t.Error(`ParseMode("fancy"): got no error`)
	}
}

func TestAutoIsSilentWithoutTerminal(t *testing.T) {
	for _, mode := range []Mode{"", Auto, None} {
		var out buffer
		r := New(Options{Mode: mode, Out: &out, Total: 10, Title: "backup"})
		r.SetPhase("copy")
		r.AddRaw(10)
		r.Done()
		if out.String() != "" {
			t.Errorf("mode %q: got %q, want silence", mode, out.String())
		}
	}
}

func TestNilReporter(t *testing.T) {
	var r *Reporter
	r.AddRaw(1)
	r.AddStored(1)
	r.SetTotal(1)
	r.SetPhase("x")
	w := r.Writer()
	if n, err := w.Write([]byte("x\n")); n != 2 || err != nil {
		t.Errorf("Write: got %d, %v, want 2, nil", n, err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close: got %v", err)
	}
	r.Done()
}

func TestNilOut(t *testing.T) {
	r := New(Options{Mode: JSON})
	r.SetPhase("x")
	r.Done()
}

// decode reads the lines of the json mode.
func decode(t *testing.T, text string) []line {
	t.Helper()
	var all []line
	for row := range strings.Lines(text) {
		var l line
		if err := json.Unmarshal([]byte(row), &l); err != nil {
			t.Fatalf("line %q: %v", row, err)
		}
		all = append(all, l)
	}
	return all
}

func TestJSONLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer
		r := New(Options{Mode: JSON, Out: &out, Total: 10e6, Title: "backup"})
		r.SetPhase("copy")
		r.SetPhase("copy")
		for range 3 {
			time.Sleep(time.Second)
			r.AddRaw(2e6)
			r.AddStored(5e5)
			synctest.Wait()
		}
		time.Sleep(time.Second)
		r.SetPhase("commit")
		r.Done()
		r.Done()
		r.SetPhase("late")

		got := decode(t, out.String())
		if len(got) != 7 {
			t.Fatalf("got %d lines, want 7: change, four seconds, change, end:\n%s", len(got), out.String())
		}
		if l := got[0]; l.Title != "backup" || l.Phase != "copy" || l.Left != nil || l.Total != 10e6 {
			t.Errorf("first line: got %+v, want phase copy and no eta", l)
		}
		last := got[6]
		if last.Phase != "commit" || !last.Done || last.Raw != 6e6 || last.Stored != 1.5e6 || last.Elapsed != 4 {
			t.Errorf("last line: got %+v, want commit, done, 6 MB to 1.5 MB in 4 s", last)
		}
		if last.In != 1.5 || last.Out != 0.4 || last.Left == nil || *last.Left != 2.7 {
			t.Errorf("last line: got %+v, want 1.5 MB/s in, 0.4 out, 2.7 s left", last)
		}
	})
}

func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Mode: JSON, Total: 100e6})
		r.AddRaw(50e6)
		time.Sleep(time.Minute)
		synctest.Wait()
		s := r.snap()
		if s.in != 0 || s.left >= 0 {
			t.Errorf("after a minute without a byte: got %v bytes/s and %v left, want 0 and unknown", s.in, s.left)
		}
		r.Done()
	})
}

func TestTotalTooSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Mode: None, Total: 10})
		r.AddRaw(50e6)
		time.Sleep(2 * time.Second)
		if s := r.snap(); s.left >= 0 || percent(s) != 99 {
			t.Errorf("got %v left at %d%%, want unknown at 99%%", s.left, percent(s))
		}
		r.SetTotal(50e6)
		if s := r.snap(); percent(s) != 100 {
			t.Errorf("got %d%%, want 100%%", percent(s))
		}
		r.Done()
	})
}

func TestSecondsSaturates(t *testing.T) {
	if got := seconds(1e300); got <= 0 {
		t.Errorf("got %v, want a long time", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	for _, mode := range []Mode{Bar, JSON, None} {
		t.Run(string(mode), func(t *testing.T) {
			var out buffer
			r := New(Options{Mode: mode, Out: &out, IsTerminal: mode == Bar, Total: 1000})
			var wait sync.WaitGroup
			for i := range 4 {
				wait.Go(func() {
					w := r.Writer()
					for range 50 {
						r.AddRaw(1)
						r.AddStored(1)
						r.SetTotal(1000)
						r.SetPhase(string(rune('a' + i)))
						_, _ = w.Write([]byte("one line\n"))
					}
				})
			}
			wait.Wait()
			r.Done()
			if got := strings.Count(out.String(), "one line\n"); got != 200 {
				t.Errorf("got %d lines through, want 200", got)
			}
			if raw := r.raw.Load(); raw != 200 {
				t.Errorf("got %d raw bytes, want 200", raw)
			}
		})
	}
}

func TestWriterKeepsLinesWhole(t *testing.T) {
	var out buffer
	r := New(Options{Mode: None, Out: &out})
	a, b := r.Writer(), r.Writer()
	for _, piece := range []string{"alp", "ha\nbe"} {
		if n, err := a.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("Write(%q): got %d, %v", piece, n, err)
		}
		_, _ = b.Write([]byte("x\n"))
	}
	r.Done()
	_, _ = a.Write([]byte("ta"))
	for range 2 {
		if err := a.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	if got, want := out.String(), "x\nalpha\nx\nbeta\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWriterBoundsEndlessLine(t *testing.T) {
	var out buffer
	r := New(Options{Mode: None, Out: &out})
	w := r.Writer()
	for range 3 * maxHeld / 1024 {
		_, _ = w.Write(bytes.Repeat([]byte("x"), 1024))
	}
	r.Done()
	if got := strings.Count(out.String(), "\n"); got < 2 {
		t.Errorf("got %d line ends in an endless line of 192 kB, want it cut", got)
	}
}

func TestWriterReportsFailure(t *testing.T) {
	r := New(Options{Mode: None, Out: broken{}})
	defer r.Done()
	if _, err := r.Writer().Write([]byte("x\n")); !errors.Is(err, errGone) {
		t.Errorf("got %v, want %v", err, errGone)
	}
}

func TestTerminalGone(t *testing.T) {
	for _, mode := range []Mode{Bar, JSON} {
		r := New(Options{Mode: mode, Out: broken{}, IsTerminal: true})
		r.SetPhase("copy")
		r.AddRaw(1)
		_, _ = r.Writer().Write([]byte("x\n"))
		r.Done()
	}
}
