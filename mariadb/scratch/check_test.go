package scratch_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb/internal/scratchtest"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
	"github.com/mbwrap/mbwrap/mariadb/server"
)

// kinds makes a table of every kind whose files are in the data directory, and some that are not.
const kinds = "CREATE DATABASE d; CREATE DATABASE `o``dd/é`; USE d;" + `
	CREATE TABLE inno (a INT PRIMARY KEY, b CHAR(100), KEY (b)); INSERT INTO inno SELECT seq, MD5(seq) FROM seq_1_to_3000;
	CREATE TABLE good LIKE inno; INSERT INTO good SELECT * FROM inno;
	CREATE TABLE lost LIKE inno; CREATE TABLE undefined LIKE inno; CREATE TABLE garbled LIKE inno;
	CREATE TABLE my (a INT PRIMARY KEY, b VARCHAR(100)) ENGINE=MyISAM; INSERT INTO my SELECT * FROM inno;
	CREATE TABLE my_index LIKE my; INSERT INTO my_index SELECT * FROM inno;
	CREATE TABLE my_good LIKE my; INSERT INTO my_good SELECT * FROM inno;
	CREATE TABLE my_lost LIKE my; INSERT INTO my_lost SELECT * FROM inno;
	CREATE TABLE my_undefined LIKE my; INSERT INTO my_undefined VALUES (1, 'x');
	CREATE TABLE ar (a INT PRIMARY KEY, b CHAR(100)) ENGINE=Aria; INSERT INTO ar SELECT * FROM inno;
	CREATE TABLE ar_good LIKE ar; INSERT INTO ar_good SELECT * FROM inno;
	CREATE TABLE ar_lost LIKE ar; INSERT INTO ar_lost SELECT * FROM inno;
	CREATE TABLE csv (a INT NOT NULL) ENGINE=CSV; INSERT INTO csv VALUES (1);
	CREATE TABLE part (a INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE);
	INSERT INTO part SELECT seq FROM seq_1_to_100;
	CREATE TABLE part_lost LIKE part; INSERT INTO part_lost SELECT * FROM part;
	CREATE TABLE merged (a INT PRIMARY KEY, b VARCHAR(100)) ENGINE=MERGE UNION=(my_good);
	CREATE TABLE mem (a INT) ENGINE=MEMORY; CREATE SEQUENCE seq; CREATE VIEW v AS SELECT * FROM inno;
	CREATE TABLE words (a INT, t TEXT, FULLTEXT (t)); INSERT INTO words VALUES (1, 'some words');
	CREATE TABLE versions (a INT) WITH SYSTEM VERSIONING; INSERT INTO versions VALUES (1);` +
	"CREATE TABLE `o``dd/é`.`we ird$` (a INT); CREATE TABLE `o``dd/é`.`gone.é#` (a INT)"

// restored makes a data directory with statements, and returns it as if it had been restored.
func restored(t *testing.T, statements string, args ...string) *scratch.Server {
	t.Helper()
	testenv.Need(t, "mariadbd")
	source := &scratch.Server{Dir: kit.DataDir(t), Args: args}
	scratchtest.Start(t, source)
	scratchtest.Exec(t, source, statements)
	if err := source.Stop(); err != nil {
		t.Fatal(err)
	}
	return &scratch.Server{Dir: source.Dir, Restored: true}
}

// damage writes into a file, at a place counted from its begin.
func damage(t *testing.T, file string, offset int64, text []byte) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(text, offset)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPlantedDamage: each damaged table is named, and no other.
func TestPlantedDamage(t *testing.T) {
	t.Parallel()
	s := restored(t, kinds)
	in := func(name string) string { return filepath.Join(s.Dir, "d", name) }
	junk := slices.Repeat([]byte{0xa5, 0x5a, 0x17}, 100)
	damage(t, in("inno.ibd"), 5*16384+200, junk)
	damage(t, in("my.MYD"), 1000, junk)
	damage(t, in("my_index.MYI"), 3000, junk)
	damage(t, in("ar.MAD"), 3*8192+300, junk)
	damage(t, in("garbled.frm"), 64, junk)
	remove(t, in("lost.ibd"), in("my_lost.MYD"), in("ar_lost.MAD"), in("part_lost#P#p1.ibd"))
	odd, err := filepath.Glob(filepath.Join(s.Dir, "o@0060dd@002f*/gone*.frm"))
	if err != nil {
		t.Fatal(err)
	}
	remove(t, append(odd, in("undefined.frm"), in("my_undefined.frm"))...)
	if err := os.WriteFile(in("stray.ibd"), make([]byte, 65536), 0o600); err != nil {
		t.Fatal(err)
	}
	scratchtest.Start(t, s)

	want := map[string]struct {
		status scratch.Status
		says   string
	}{
		"d.inno": {scratch.StatusCorrupt, "corrupted"}, "d.my": {scratch.StatusCorrupt, "error"}, "d.my_index": {scratch.StatusCorrupt, "error"},
		"d.ar": {scratch.StatusCorrupt, "error"}, "d.garbled": {scratch.StatusCorrupt, "Incorrect information in file"},
		"d.lost": {scratch.StatusCorrupt, "missing"}, "d.my_lost": {scratch.StatusCorrupt, "not found"},
		"d.ar_lost": {scratch.StatusCorrupt, "error"}, "d.part_lost": {scratch.StatusCorrupt, "missing"},
		"d.undefined": {scratch.StatusCorrupt, "d/undefined.ibd but no .frm"}, "d.my_undefined": {scratch.StatusCorrupt, "no .frm"},
		"o`dd/é.gone.é#": {scratch.StatusCorrupt, "no .frm"}, "d.stray": {scratch.StatusWarning, "knows no table"},
	}
	var told []string
	total := 0
	all, err := s.CheckTables(t.Context(), scratch.CheckOptions{Parallel: 3, Mode: scratch.Medium,
		OnTotal: func(n int) { total = n }, OnTable: func(t scratch.Table) { told = append(told, t.String()) }})
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, got := range all {
		names[got.String()] = true
		w, damaged := want[got.String()]
		switch {
		case damaged && (got.Status != w.status || !strings.Contains(strings.Join(got.Messages, "\n"), w.says)):
			t.Errorf("%s: got %s %q, want %s with %q", got, got.Status, got.Messages, w.status, w.says)
		case !damaged && got.Status != scratch.StatusOK:
			t.Errorf("%s: got %s %q, want it to be well", got, got.Status, got.Messages)
		case got.Engine == "" && got.Name != "garbled":
			t.Errorf("%s: got no engine", got)
		}
	}
	for _, name := range []string{"d.good", "d.my_good", "d.ar_good", "d.part", "d.seq", "d.words", "d.versions", "d.merged", "d.csv", "d.mem",
		"o`dd/é.we ird$", "mysql.global_priv", "mysql.proc", "mysql.general_log", "sys.sys_config"} {
		if !names[name] {
			t.Errorf("%s was not checked", name)
		}
	}
	for name := range want {
		if !names[name] {
			t.Errorf("%s is not in the list", name)
		}
	}
	if names["d.v"] {
		t.Error("a view is in the list")
	}
	if total != len(all) || len(told) != len(all) {
		t.Errorf("got %d in all, %d told, want %d", total, len(told), len(all))
	}
}

// TestCheckModes: sound tables are sound in every mode.
func TestCheckModes(t *testing.T) {
	t.Parallel()
	s := restored(t, kinds)
	s.BufferPool = 64 << 20
	scratchtest.Start(t, s)
	for _, mode := range []scratch.Mode{scratch.Quick, "", scratch.Extended} {
		all, err := s.CheckTables(t.Context(), scratch.CheckOptions{Mode: mode, Parallel: 100})
		if err != nil || len(all) < 50 {
			t.Fatalf("mode %q: got %d tables, error %v", mode, len(all), err)
		}
		for _, got := range all {
			if got.Status != scratch.StatusOK {
				t.Errorf("mode %q: %s: got %s %q, want ok", mode, got, got.Status, got.Messages)
			}
		}
		if !slices.IsSortedFunc(all, func(a, b scratch.Table) int { return strings.Compare(a.Schema+"\x00"+a.Name, b.Schema+"\x00"+b.Name) }) {
			t.Errorf("mode %q: the tables are not sorted", mode)
		}
	}
	if _, err := s.CheckTables(t.Context(), scratch.CheckOptions{Mode: "deep"}); err == nil {
		t.Error("unknown mode: got no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.CheckTables(ctx, scratch.CheckOptions{OnTable: func(scratch.Table) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v, want %v", err, context.Canceled)
	}
	if rows, err := s.CountRows(t.Context(), server.CountOptions{Parallel: 2}); err != nil || len(rows) < 15 {
		t.Errorf("count: got %d tables, error %v", len(rows), err)
	}
}

func TestNotRunning(t *testing.T) {
	var s scratch.Server
	_, errCheck := s.CheckTables(t.Context(), scratch.CheckOptions{})
	_, errCount := s.CountRows(t.Context(), server.CountOptions{})
	_, errRun := s.RunSQL(t.Context(), nil)
	for _, err := range []error{errCheck, errCount, errRun} {
		if err == nil || !strings.Contains(err.Error(), "does not run") {
			t.Errorf("got %v, want that it does not run", err)
		}
	}
}

// copyFile copies a file, as a restore brings a table that lay elsewhere into the data directory.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}
