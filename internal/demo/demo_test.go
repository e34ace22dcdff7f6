package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestIndent(t *testing.T) {
	var out bytes.Buffer
	w := &indent{out: &out}
	for _, piece := range []string{"one\ntw", "o\n", "\nthree"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("got %d, %v, want %d", n, err, len(piece))
		}
	}
	if got, want := out.String(), "    one\n    two\n\n    three"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCompare(t *testing.T) {
	before := map[string]uint64{"a.kept": 1, "a.changed": 2, "a.dropped": 3}
	day := map[string]uint64{"a.kept": 1, "a.changed": 20}
	for _, c := range []struct {
		name     string
		restored map[string]uint64
		wrong    bool
	}{
		{"all back", map[string]uint64{"a.kept": 1, "a.changed": 2, "a.dropped": 3}, false},
		{"one stale", map[string]uint64{"a.kept": 1, "a.changed": 20, "a.dropped": 3}, true},
		{"one missing", map[string]uint64{"a.kept": 1, "a.changed": 2}, true},
		{"one too many", map[string]uint64{"a.kept": 1, "a.changed": 2, "a.dropped": 3, "a.strange": 0}, true},
	} {
		var out bytes.Buffer
		d := &demo{screen: newScreen(&out, false), atBackup: before, changed: day, restored: c.restored}
		err := d.compare(t.Context())
		if (err != nil) != c.wrong {
			t.Errorf("%s: got %v, want an error: %v", c.name, err, c.wrong)
		}
		if shown := strings.Contains(out.String(), "DIFFERENT"); shown != c.wrong {
			t.Errorf("%s: got %q, want a difference shown: %v", c.name, out.String(), c.wrong)
		}
	}
}

func TestNumbers(t *testing.T) {
	if got, want := rate(250e6, 2*time.Second), "125 MB/s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := megabytes(1_500_000_000), "1500 MB"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := newScreen(nil, true).paint(red, "x"), "\x1b[31;1mx\x1b[0m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
