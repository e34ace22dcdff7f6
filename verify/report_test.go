package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/mariadb/server"
)

// TestText shows the whole report of a damaged backup: verdict, places, what is hit, and the command.
func TestText(t *testing.T) {
	r, dir, b := backup(t, likeReal(t), made{codec: "none", blockSize: 4096, volumeSize: 40_000})
	hit := damageFile(t, dir, b, "shop/b#P#p0.MAD")
	report := run(t, again(t, r, b.ID), Read)
	report.Duration = 1500 * time.Millisecond
	var text strings.Builder
	if err := report.Text(&text); err != nil {
		t.Fatal(err)
	}
	volume := b.Manifest.Volumes[hit.Volume-1].Name
	for _, want := range []string{
		b.ID + ": DAMAGED, 2 problems\n",
		"  checked: 7 objects (",
		" in 1.5s\n",
		fmt.Sprintf("    %s at offset %d: damaged block of 4096 bytes: ", volume, hit.Stored),
		fmt.Sprintf("      at block %d, stored offset %d, raw offset %d\n", hit.Raw/4096, hit.Stored, hit.Raw),
		"      hits shop/b#P#p0.MAD\n",
		"      tables shop.b\n",
		"  files that can't be restored in full: 1 (25.0 kB)\n    shop/b#P#p0.MAD (25.0 kB, damaged)\n",
		"  tables that are hit: 1\n    shop.b\n",
		"  intact: 11 files (",
		"what can still be restored: a server with everything but the tables named here.\n",
		"    mbwrap restore " + b.ID + " --salvage --target-dir DIR\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("got\n%s, want %q in it", text.String(), want)
		}
	}
}

func TestAdvice(t *testing.T) {
	tests := []struct {
		name   string
		report Report
		want   string
	}{
		{"all", Report{ID: "x", Restorable: RestorableAll}, "all of it"},
		{"tables", Report{ID: "x", Restorable: RestorableTables}, "--salvage"},
		{"files", Report{ID: "x", Restorable: RestorableFiles, LostMore: true}, "more may be lost"},
		{"nothing", Report{ID: "x", Restorable: RestorableNothing}, "mbwrap list"},
		{"unknown", Report{ID: "x", Restorable: RestorableUnknown}, "--level read"},
		{"a part", Report{ID: "x", Restorable: RestorableUnknown, Sample: new(Sample)}, "only a part"},
		{"a trial that failed", Report{ID: "x", Restorable: RestorableAll, Trial: new(Trial)}, "not as it should be"},
	}
	for _, tt := range tests {
		if got := strings.Join(tt.report.advice(), "\n"); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q in it", tt.name, got, tt.want)
		}
	}
}

// TestTextOfHostileNames: names out of a backup do nothing to a terminal.
func TestTextOfHostileNames(t *testing.T) {
	p := whole("data.0001.xbs", "what \x1b[2J is this\n")
	p.addFile("db/\x1b]0;x\a.ibd")
	r := &Report{ID: "x", Problems: []Problem{p}, ProblemCount: 1, Trial: &Trial{Notes: []string{"\u202e"}}}
	var text strings.Builder
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text.String(), "\x1b\a\u202e") || !strings.Contains(text.String(), `\x1b[2J`) {
		t.Errorf("got %q", text.String())
	}
}

func TestTextOfALongReport(t *testing.T) {
	r := &Report{ID: "x", ProblemCount: 5000, LostFiles: 3000, LostTableCount: 2000, Trial: &Trial{
		ServerVersion: "10.11", NotCheckedCount: 50, NotChecked: []string{"db.a: why"}, RTO: 61.25, Statements: 3, Compared: 4, Kept: true, Dir: "/scratch/x",
	}}
	for i := range maxLost {
		r.Problems = append(r.Problems, whole("o", "m"))
		r.Lost = append(r.Lost, LostFile{Path: fmt.Sprint("f", i), Why: whyDamaged})
		r.LostTables = append(r.LostTables, fmt.Sprint("t", i))
	}
	var text strings.Builder
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"and 4980 more problems", "and 2980 more", "and 1980 more", "and 49 more", "1m1.3s", "kept in /scratch/x"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("got %s, want %q in it", text.String(), want)
		}
	}
	if n := strings.Count(text.String(), "\n"); n > 100 {
		t.Errorf("got %d lines", n)
	}
}

type fullWriter struct{}

var errFull = errors.New("full")

func (fullWriter) Write([]byte) (int, error) { return 0, errFull }

func TestTextThatCantBeWritten(t *testing.T) {
	if err := (&Report{}).Text(fullWriter{}); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 1 << 40: "1.1 TB", math.MaxInt64: "9.2 EB"} {
		if got := size(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

// TestJSON: lists are never null, and the members keep their names.
func TestJSON(t *testing.T) {
	r, dir, b := small(t, "zstd")
	if err := os.Remove(filepath.Join(dir, "SHA256SUMS")); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(run(t, again(t, r, b.ID), Pages))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"server", "id", "level", "encrypted", "ok", "problems", "problem_count", "objects", "stored_bytes", "raw_bytes",
		"blocks", "chunks", "files", "sample", "pages", "trial", "restorable", "lost", "lost_files", "lost_bytes", "lost_tables",
		"lost_table_count", "lost_more", "intact_files", "intact_bytes", "seconds"} {
		if _, found := got[name]; !found {
			t.Errorf("no member %q in %s", name, data)
		}
	}
	problem, ok := got["problems"].([]any)[0].(map[string]any)
	if !ok {
		t.Fatalf("got %s", data)
	}
	for _, name := range []string{"object", "block", "offset", "stored_offset", "raw_offset", "message", "files", "file_count", "tables"} {
		if value, found := problem[name]; !found || value == nil {
			t.Errorf("member %q of a problem: got %v", name, value)
		}
	}
	if got["lost"] == nil || got["lost_tables"] == nil {
		t.Errorf("got null for a list in %s", data)
	}
}

func rows(list ...any) []server.Rows {
	var all []server.Rows
	for i := 0; i < len(list); i += 2 {
		schema, name, _ := strings.Cut(list[i].(string), ".")
		all = append(all, server.Rows{Schema: schema, Name: name, Count: int64(list[i+1].(int)), Reason: "why"})
	}
	return all
}

func TestBaseline(t *testing.T) {
	b := &Baseline{Time: time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC), Server: "db1"}
	b.Set(rows("db.a", 100, "db.b", 0, "db.unknown", -1))
	var out bytes.Buffer
	if err := b.Write(&out); err != nil {
		t.Fatal(err)
	}
	again, err := ReadBaseline(&out)
	if err != nil || again.Server != "db1" || !again.Time.Equal(b.Time) || len(again.Tables) != 2 || again.Tables["db.a"] != 100 {
		t.Fatalf("got %+v, %v", again, err)
	}
	tests := []struct {
		name  string
		rows  []server.Rows
		drift float64
		wrong []string
		notes int
	}{
		{"same", rows("db.a", 100, "db.b", 0), 0, nil, 0},
		{"fewer", rows("db.a", 99, "db.b", 0), 0, []string{"db.a"}, 0},
		{"fewer, allowed", rows("db.a", 99, "db.b", 0), 0.01, nil, 0},
		{"more than allowed", rows("db.a", 102, "db.b", 0), 0.01, []string{"db.a"}, 0},
		{"rows where none were", rows("db.a", 100, "db.b", 1), 0.5, []string{"db.b"}, 0},
		{"missing", rows("db.b", 0), 0, []string{"db.a"}, 0},
		{"both missing", nil, 0, []string{"db.a", "db.b"}, 0},
		{"another", rows("db.a", 100, "db.b", 0, "db.c", 5), 0, nil, 1},
		{"not counted", rows("db.a", -1, "db.b", 0), 0, nil, 1},
	}
	for _, tt := range tests {
		wrong, notes := again.compare(tt.rows, tt.drift)
		var got []string
		for _, w := range wrong {
			got = append(got, w.table)
			if !strings.Contains(w.text, w.table) || !strings.Contains(w.text, "2026-11-30T01:02:03Z") {
				t.Errorf("%s: got text %q", tt.name, w.text)
			}
		}
		if !slices.Equal(got, tt.wrong) || len(notes) != tt.notes {
			t.Errorf("%s: got %q, notes %q, want %q and %d notes", tt.name, got, notes, tt.wrong, tt.notes)
		}
	}
}

func TestReadBaselineRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":       "",
		"no JSON":       "hello",
		"no tables":     `{"time":"2026-11-30T01:02:03Z","server":"x"}`,
		"no time":       `{"server":"x","tables":{}}`,
		"negative rows": `{"time":"2026-11-30T01:02:03Z","server":"x","tables":{"a.b":-1}}`,
		"too large":     `{"time":"2026-11-30T01:02:03Z","server":"x","tables":{"a.b":9223372036854775808}}`,
		"another thing": `{"time":"2026-11-30T01:02:03Z","server":"x","tables":{},"y":1}`,
		"two":           `{"time":"2026-11-30T01:02:03Z","server":"x","tables":{}} {}`,
	} {
		if b, err := ReadBaseline(strings.NewReader(text)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, b)
		}
	}
}

func FuzzReadBaseline(f *testing.F) {
	f.Add([]byte(`{"time":"2026-11-30T01:02:03Z","server":"x","tables":{"a.b":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := ReadBaseline(bytes.NewReader(data))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := b.Write(&out); err != nil {
			return // a year that JSON can't say
		}
		if _, err := ReadBaseline(&out); err != nil {
			t.Errorf("%q: written and read again: %v", data, err)
		}
	})
}

func TestTableOf(t *testing.T) {
	for path, want := range map[string]string{
		"db/t.ibd": "db.t", "db/t.frm": "db.t", "db/t#P#p0.MYD": "db.t", "db/t.ibd.delta": "db.t", "db/t.ibd.meta": "db.t", "db/t.new": "db.t",
		"db/we@0020ird.MAI": "db.we ird", "db/db.opt": "", "ibdata1": "", "undo001": "", "xtrabackup_info": "", "aria_log_control": "",
		"mysql/global_priv.MAD": "mysql.global_priv",
	} {
		if got := tableOf(path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}
