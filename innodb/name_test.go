package innodb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/innodb"
)

func TestTableName(t *testing.T) {
	tests := []struct{ path, want string }{
		{"d/t.ibd", "d.t"},
		{"d/t.new", "d.t"},
		{"d/t.frm", "d.t"},
		{"d/t.MAD", "d.t"},
		{"d/t.ibd.delta", "d.t"},
		{"d/t.ibd.meta", "d.t"},
		{"d/t.ibd.qp", "d.t"},
		{"d/t#P#p0.ibd", "d.t"},
		{"d/t#P#p0#SP#p0sp1.ibd", "d.t"},
		{"d/t#p#p0#sp#p0sp1.ibd", "d.t"},
		{"d/t#P#p@002d0.ibd", "d.t"},
		{"we@0020ird@0023/t@0kb.ibd", "we ird#.täb"},
		{"d/a@0020b@002ec@002dd@0023e@002ff.ibd", "d.a b.c-d#e/f"},
		{"d/@65e5@672c.ibd", "d.日本"},
		{"d/@0K@1i@1O@1j.ibd", "d.ÄöÜß"},
		{"d/@0024x@0040y.ibd", "d.$x@y"},
		{"d/#sql-alter-1a2-5.ibd", "d.#sql-alter-1a2-5"},
		{"d/#sql-ib1067.ibd", "d.#sql-ib1067"},
		{"d/#sql-1#P#p0.ibd", "d.#sql-1"},
		{"d/FTS_0000000000000016_CONFIG.ibd", "d.FTS_0000000000000016_CONFIG"},
		{"remote/d/t.ibd", "d.t"},
		{"d/con@@@.ibd", "d.con"},
		{"d/x@zz.ibd", "d.x@zz"},
		{"d/x@.ibd", "d.x@"},
		{"d/x@00.ibd", "d.x@00"},
		{"d/x@d800.ibd", "d.x@d800"},
		{"d/x@0000.ibd", "d.x@0000"},
		{"d/x@001b[31m.ibd", "d.x@001b[31m"},
		{"d/x@  y.ibd", "d.x@  y"},
		{"d/x@+041.ibd", "d.x@+041"},
		{"d/x\xff.ibd", "d.x\uFFFD"},
		{"d/x\xff@0020.ibd", "d.x\uFFFD "},
		{"ibdata1", ""},
		{"undo001", ""},
		{"aria_log.00000001", ""},
		{"backup-my.cnf", ""},
		{"mysql.ibd", ""},
		{"d/db.opt", ""},
		{"d/trigger.TRN", ""},
		{"d/t.TRG", "d.t"},
		{"d/.ibd", ""},
		{"d/noextension", ""},
		{"d/", ""},
		{"/t.ibd", ""},
		{"", ""},
		{"#rocksdb/000001.sst", ""},
		{"#innodb_redo/x.y", ""},
	}
	for _, test := range tests {
		if got := innodb.TableName(test.path); got != test.want {
			t.Errorf("%q: got %q, want %q", test.path, got, test.want)
		}
	}
}

func TestIsTablespace(t *testing.T) {
	tests := map[string]bool{
		"d/t.ibd": true, "d/t.new": true, "d/t#P#p0.ibd": true, "d/t.ibd.delta": true, "ibdata1": true, "ibdata1.delta": true, "ibdata12": true,
		"undo001": true, "undo001.delta": true, "undo_001": true, "undo_x.ibu": true, "mysql.ibd": true, "a/b/t.ibd": true,
		"d/t.ibd.meta": false, "ibdata1.meta": false, "d/t.isl": false, "d/t.frm": false, "d/t.MAI": false, "ib_logfile0": false,
		"ibtmp1": false, "aria_log_control": false, "d/ibdata1": false, "d/undo001": false, "undo_1_trunc.log": false, "d/t.ibd.qp": false,
		"d/t.ren": false, "x.delta": false, "": false,
	}
	for path, want := range tests {
		if got := innodb.IsTablespace(path); got != want {
			t.Errorf("%q: got %v, want %v", path, got, want)
		}
	}
}

// realNames makes tables with odd names in a real server and reads the names off the files.
func realNames(t *testing.T, s *server) {
	t.Helper()
	names := []string{"plain", "With Capitals", "a b.c-d#e/f", "ümläut ÄÖÜß", "日本語", "Ελληνικά ΏΑ", "Кириллица Ж", "հայերեն Ա", "ŒœŸ", "Ⅷⓐ Ａ",
		"$x@y", "@", "@@", "@0020", "a@0kb", "x#P#y", "#sql-looks-like", "tab\tle", "q'uote\"", "back\\slash", "sémi;colon", "ẞ ẛ ỹ", "con", "~!%^&*()+=|{}[]<>?,:"}
	var b strings.Builder
	quote := func(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
	b.WriteString("set names utf8mb3; create database `dä ta-base`; use `dä ta-base`;\n")
	for _, name := range names {
		fmt.Fprintf(&b, "create table %s (a int) engine=innodb;\n", quote(name))
	}
	s.sql(t, b.String())
	if err := s.try(t.Context(), "create table test.`😀` (a int)"); err == nil {
		t.Error("got a table named by a character beyond 16 bits, which servers refuse and the file name encoding can't hold")
	}
	files, err := filepath.Glob(filepath.Join(s.data, "d@*", "*.ibd"))
	if err != nil || len(files) != len(names) {
		t.Fatalf("got %d files, %v, want %d", len(files), err, len(names))
	}
	got := map[string]bool{}
	for _, file := range files {
		rel, _ := filepath.Rel(s.data, file)
		got[innodb.TableName(rel)] = true
	}
	for _, name := range names {
		want := "dä ta-base." + name
		if name == "tab\tle" {
			want = "dä ta-base.tab@0009le" // control characters stay encoded
		}
		if !got[want] {
			t.Errorf("got %v, want among them %q", got, want)
		}
	}
	realTable(t, s)
}

// realTable compares the whole table of letters with the server's own.
func realTable(t *testing.T, s *server) {
	t.Helper()
	letters := "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz@"
	var b strings.Builder
	b.WriteString("set names utf8mb4;\n")
	var pairs []string
	for _, a := range letters {
		for _, c := range letters {
			pairs = append(pairs, string(a)+string(c))
			fmt.Fprintf(&b, "select hex(convert(convert(_filename'@%c%c' using utf8mb4) using utf16));\n", a, c)
		}
	}
	file := filepath.Join(s.dir, "q")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(s.query(t, "source "+file), "\n")
	if len(lines) != len(pairs) {
		t.Fatalf("got %d answers, want %d", len(lines), len(pairs))
	}
	ours := innodb.LetterPairs()
	for i, pair := range pairs {
		want, known := "", ours[pair]
		if len(lines[i]) == 4 && lines[i] != "003F" && pair != "@@" {
			want = lines[i]
		}
		got := ""
		if known != 0 {
			got = fmt.Sprintf("%04X", known)
		}
		if got != want {
			t.Errorf("@%s: got %q, want %q", pair, got, want)
		}
	}
}
