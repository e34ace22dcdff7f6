package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/internal/gendata"
)

// fixed returns a contender whose runs take what samples say, one after the other.
func fixed(name string, samples ...sample) *contender {
	next := 0
	return &contender{name: name, run: func(context.Context) (sample, error) {
		s := samples[next]
		next++
		return s, nil
	}}
}

func TestRaceTakesTurnsAndDropsTheSlow(t *testing.T) {
	var order []string
	fast := fixed("fast", sample{wall: 3 * time.Second, cpu: 5, size: 7}, sample{wall: time.Second, cpu: 1}, sample{wall: 2 * time.Second, cpu: 9})
	slow := fixed("slow", sample{wall: tooLong + 1})
	err := race(t.Context(), []*contender{fast, slow}, 3, func(c *contender) { order = append(order, c.name) })
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(order, " "), "fast slow fast fast"; got != want {
		t.Errorf("got order %q, want %q", got, want)
	}
	if got, want := fast.median(), (sample{wall: 2 * time.Second, cpu: 5, size: 7}); got != want {
		t.Errorf("got medians %+v, want %+v", got, want)
	}
}

func TestRaceStopsAtAnError(t *testing.T) {
	broken := errors.New("broken")
	bad := &contender{name: "bad", run: func(context.Context) (sample, error) { return sample{}, broken }}
	if err := race(t.Context(), []*contender{bad}, 1, func(*contender) {}); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := measure(t.Context(), command{argv: []string{"cat"}, stdin: in, out: out})
	if err != nil {
		t.Fatal(err)
	}
	if s.size != 10 || s.wall <= 0 || s.rss <= 0 {
		t.Errorf("got %+v, want 10 bytes of output, some time and some memory", s)
	}
	_, err = measure(t.Context(), command{argv: []string{"sh", "-c", "echo no such luck >&2; exit 3"}})
	if err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("got %v, want an error with what the program said", err)
	}
}

func TestPromisesOfRestoreAndMemory(t *testing.T) {
	run := func(ours, durable time.Duration, rss int64) *bench {
		b := &bench{}
		rows := []*contender{fixed("zstd -dc | mbstream -x -p 2"), fixed("the same, then sync -f"), fixed("mbwrap restore --no-prepare")}
		rows[0].samples = []sample{{wall: durable / 2}}
		rows[1].samples = []sample{{wall: durable}}
		rows[2].samples = []sample{{wall: ours, rss: rss}}
		b.promiseRestore(&stream{kind: "tpcc"}, rows)
		b.promiseMemory(rows[2:])
		return b
	}
	for _, c := range []struct {
		name          string
		ours, durable time.Duration
		rss           int64
		broken        int
	}{
		{"both kept", 10 * time.Second, 13 * time.Second, 127 << 20, 0},
		{"too slow", 10 * time.Second, 12 * time.Second, 127 << 20, 1},
		{"too large", 10 * time.Second, 13 * time.Second, 128 << 20, 1},
	} {
		if got := run(c.ours, c.durable, c.rss).broken(); got != c.broken {
			t.Errorf("%s: got %d broken, want %d", c.name, got, c.broken)
		}
	}
}

func TestReport(t *testing.T) {
	b := &bench{options: &options{}}
	c := &contender{name: "a | b", samples: []sample{{wall: 2 * time.Second, cpu: 3 * time.Second, rss: 64 << 20, size: 25e6}}}
	b.tables = []resultTable{{title: "Title", note: "Note.", raw: 100e6, sized: true, rows: []*contender{c}}}
	b.promise(false, "it flies", "no")
	got := string(b.report(markdownText{}))
	want := `
## Title

|  | wall s | CPU s | MB/s in | MB out | of raw | ratio | RSS MiB | runs |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
| a \| b | 2.00 | 3.00 | 50 | 25.0 | 0.250 | 4.00 | 64 | 1 |

Note.

## Promises

- BROKEN  it flies: no
`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if text := string(b.report(plainText{})); !strings.Contains(text, "  a | b ") {
		t.Errorf("got %q, want the row in it", text)
	}
}

func TestPromisesOfCost(t *testing.T) {
	series := func(name string, seconds ...float64) *contender {
		c := fixed(name)
		for _, s := range seconds {
			c.samples = append(c.samples, sample{cpu: time.Duration(s * float64(time.Second))})
		}
		return c
	}
	for _, c := range []struct {
		name             string
		kind             gendata.Kind
		pages, encrypted float64 // CPU seconds beside 10
		broken           int
	}{
		{"both kept", gendata.Sysbench, 10.2, 11.1, 0},
		{"encryption costs too much", gendata.Sysbench, 10.2, 11.3, 1},
		{"pages cost too much", gendata.Sysbench, 10.4, 11.1, 1},
		{"encryption of what shrinks well is not promised", gendata.TPCC, 10.2, 11.3, 0},
	} {
		b := &bench{}
		b.promiseCost(&stream{kind: c.kind}, []*contender{series("plain", 10), series("pages", c.pages), series("encrypted", c.encrypted)})
		if got := b.broken(); got != c.broken {
			t.Errorf("%s: got %d broken, want %d: %+v", c.name, got, c.broken, b.promises)
		}
	}
	// What disturbs a run only adds to it.
	if got := growth(series("a", 20, 10, 13), series("b", 30, 14, 11)); got < 0.08695 || got > 0.08696 { // 12.5 by 11.5
		t.Errorf("got a growth of %v, want 0.08696", got)
	}
}

func TestOneAgeStream(t *testing.T) {
	one := func(cpu time.Duration) *contender { return &contender{samples: []sample{{wall: cpu, cpu: cpu}}} }
	s := &stream{kind: "sysbench", size: 1000e6, plain: one(2 * time.Second)}
	usual := &contender{samples: []sample{{size: 400e6, cpu: 4 * time.Second}}}
	e := &ceiling{s: s, usual: usual, none: one(time.Second), sealed: one(2 * time.Second), hash: one(time.Second)}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"sealed", e.sealing() / 1e6, 1000}, {"hashed", e.hashed() / 1e6, 1000}, {"made by a core", e.produced() / 1e6, 100},
		{"cores", e.cores(), 10}, {"delivered", e.source() / 1e6, 500}, {"busy", e.busy(), 0.2},
	} {
		if c.got < c.want*0.999 || c.got > c.want*1.001 {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
	if note := e.note(); !strings.Contains(note, "10 cores must compress") || !strings.Contains(note, "come at 2500 MB/s") {
		t.Errorf("got %q, want the numbers in it", note)
	}
	b := &bench{}
	b.promiseSeal(e)
	if b.broken() > 0 {
		t.Errorf("got %+v, want both kept", b.promises)
	}
	usual.samples[0].cpu /= 2
	s.plain = one(300 * time.Millisecond)
	if b.promiseSeal(e); b.broken() != 2 {
		t.Errorf("got %+v, want two broken", b.promises)
	}
	if got := hashing(9 << 20); got.cpu <= 0 || got.wall <= 0 {
		t.Errorf("hashing took %+v", got)
	}
}

func TestParts(t *testing.T) {
	for _, c := range []struct {
		only, write string
		ok          bool
	}{{"", "", true}, {"", "x.md", true}, {"cost", "", true}, {"memory", "", true}, {"cots", "", false}, {"cost", "x.md", false}} {
		if err := (&options{only: c.only, write: c.write}).checkOnly(); (err == nil) != c.ok {
			t.Errorf("%+v: got %v", c, err)
		}
	}
	b := &bench{options: &options{only: "cost"}}
	if !b.wanted("cost") || b.wanted("pack") {
		t.Error("got another part than the one that is wanted")
	}
}
