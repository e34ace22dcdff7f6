package scratch_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/mariadb/internal/scratchtest"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
	"github.com/mbwrap/mbwrap/mariadb/server"
)

func TestParseSQL(t *testing.T) {
	one := func(line int, sql string, want ...string) scratch.Statement {
		return scratch.Statement{Line: line, SQL: sql, Expects: want != nil, Want: want}
	}
	none := scratch.Statement{Line: 1, SQL: "SELECT 1", Expects: true}
	for _, tt := range []struct {
		name, text string
		want       []scratch.Statement
	}{
		{"nothing", "", nil},
		{"blanks and comments", "\ufeff -- a\n# b\n/* c; \n */ ;;\n--\n", nil},
		{"one", "SELECT 1;", []scratch.Statement{one(1, "SELECT 1")}},
		{"two in a line", "SELECT 1; SELECT 2;\n-- expect: 2\n", []scratch.Statement{one(1, "SELECT 1"), one(1, "SELECT 2", "2")}},
		{"rows", "\nSELECT a,\n b FROM t;\n-- expect: 1\t2\n-- a remark\n\n-- expect: NULL\t\\n \r\n", []scratch.Statement{one(2, "SELECT a,\n b FROM t", "1\t2", "NULL\t\\n ")}},
		{"an empty value", "SELECT '';\n-- expect:\n", []scratch.Statement{one(1, "SELECT ''", "")}},
		{"a blank", "SELECT ' ';\n-- expect:  \n", []scratch.Statement{one(1, "SELECT ' '", " ")}},
		{"no rows", "SELECT 1;\n-- expect none \n", []scratch.Statement{none}},
		{"quotes", "SELECT ';', \"it's;\", `a;``'`, 'it''s;', '\\';';\nSELECT 2;", []scratch.Statement{one(1, "SELECT ';', \"it's;\", `a;``'`, 'it''s;', '\\';'"), one(2, "SELECT 2")}},
		{"comments within", "SELECT /* ; ' */ 1 -- ; it's\n, 2 # ;\n;", []scratch.Statement{one(1, "SELECT /* ; ' */ 1 -- ; it's\n, 2 # ;")}},
		{"executed comment", "/*!50000 SELECT 1 */;", []scratch.Statement{one(1, "/*!50000 SELECT 1 */")}},
		{"minus", "SELECT 5--1;", []scratch.Statement{one(1, "SELECT 5--1")}},
		{"a comment at the end", "SELECT 1;--", []scratch.Statement{one(1, "SELECT 1")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := scratch.ParseSQL(strings.NewReader(tt.text))
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %#v, error %v, want %#v", got, err, tt.want)
			}
		})
	}
	for _, tt := range []struct{ name, text, want string }{
		{"no semicolon", "SELECT 1;\n\nSELECT 2\n", "line 3: the statement has no semicolon"},
		{"within", "SELECT 1\n-- expect: 1\n;", "line 2: an expectation within the statement of line 1"},
		{"before", "-- expect: 1\nSELECT 1;", "line 1: an expectation without a statement"},
		{"misspelt", "SELECT 1;\n-- expected: 1\n", "line 2: \"-- expected: 1\" is neither"},
		{"other case", "SELECT 1;\n-- Expect: 1\n", "is neither"},
		{"other comment", "SELECT 1;\n# expect: 1\n", "is neither"},
		{"glued", "SELECT 1;\n--expect: 1\n", "no semicolon"},
		{"none and rows", "SELECT 1;\n-- expect none\n-- expect: 1\n", "line 3: \"-- expect none\" stands alone"},
		{"rows and none", "SELECT 1;\n-- expect: 1\n-- expect none\n", "line 3: \"-- expect none\" stands alone"},
		{"open text", "SELECT\n 'a\n;", "line 2: the text or name in ' does not end"},
		{"open comment", "SELECT 1 /* ;", "the comment does not end"},
		{"open comment before", "\n/* ;", "line 2: the comment does not end"},
		{"too large", strings.Repeat(" ", 1<<20+1), "larger than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := scratch.ParseSQL(strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
	if _, err := scratch.ParseSQL(failing{}); err == nil {
		t.Error("a file that can't be read: got no error")
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fmt.Errorf("no") }

// write puts statements back into the form of a file.
func write(all []scratch.Statement) string {
	var b strings.Builder
	for _, s := range all {
		b.WriteString(s.SQL + "\n;\n")
		for _, row := range s.Want {
			b.WriteString("-- expect: " + row + "\n")
		}
		if s.Expects && s.Want == nil {
			b.WriteString("-- expect none\n")
		}
	}
	return b.String()
}

// FuzzParseSQL: whatever is taken reads the same when it is written again.
func FuzzParseSQL(f *testing.F) {
	f.Add("SELECT ';' -- x\n; -- expect: 1\n")
	f.Add("/*! SELECT */;\n-- expect none\n#;\n`a``;`;")
	f.Add("SELECT '\\';';\n-- expect: \\t\tNULL\r\n-- expect:\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := scratch.ParseSQL(strings.NewReader(text))
		if err != nil {
			return
		}
		again, err := scratch.ParseSQL(strings.NewReader(write(all)))
		if err != nil {
			t.Fatalf("%q became %q: %v", text, write(all), err)
		}
		if len(again) != len(all) {
			t.Fatalf("got %d statements, want %d", len(again), len(all))
		}
		for i, s := range all {
			if s.SQL == "" || s.Line < 1 || s.Line > strings.Count(text, "\n")+1 {
				t.Errorf("got %+v", s)
			}
			s.Line = again[i].Line
			if !reflect.DeepEqual(again[i], s) {
				t.Errorf("got %#v, want %#v", again[i], s)
			}
		}
	})
}

func TestRunSQL(t *testing.T) {
	t.Parallel()
	s := restored(t, "CREATE DATABASE d; CREATE TABLE d.t (a INT, b VARCHAR(20)); INSERT INTO d.t VALUES (1, 'x\\ty'), (2, NULL), (3, ''); CREATE TABLE d.m (a INT) ENGINE=MyISAM")
	scratchtest.Start(t, s)
	text := `USE d;
SELECT COUNT(*) FROM t;
-- expect: 3
SELECT a, b FROM t ORDER BY a;
-- expect: 1	x\ty
-- expect: 2	NULL
-- expect: 3	` + `
SELECT a FROM t WHERE a > 5;
-- expect none
SELECT 1.50, DATE '2026-01-02', X'5c';
-- expect: 1.50	2026-01-02	\\
SELECT seq FROM seq_1_to_50000;
SELECT COUNT(*) FROM t;
-- expect: 4
SELECT a FROM t ORDER BY a;
-- expect: 1
-- expect: 2
SELECT a FROM t WHERE a > 5;
-- expect: 6
SELECT 1;
-- expect none
SELECT * FROM nowhere;
-- expect: 1
INSERT INTO t VALUES (4, 'y');
INSERT INTO m VALUES (4);
CREATE TABLE u (a INT);
SELECT nonsense(;
`
	statements, err := scratch.ParseSQL(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := s.RunSQL(t.Context(), statements)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`line 13: got "3", want "4"`, `line 15: got 3 rows ["1" "2" "3"], want 2 rows ["1" "2"]`, `line 18: got no rows, want "6"`,
		`line 20: got "1", want no rows`, `line 22: Error 1146 (42S02): Table 'd.nowhere' doesn't exist`,
		`line 24: Error 1792`, `line 25: Error 1792`, `line 26: Error 1792`, `line 27: Error 1064`,
	}
	for i := range max(len(wrong), len(want)) {
		switch {
		case i >= len(wrong):
			t.Errorf("got no mismatch, want %q", want[i])
		case i >= len(want) || !strings.HasPrefix(wrong[i].String(), want[i]):
			t.Errorf("got %q, want %q", wrong[i], want[min(i, len(want)-1)])
		}
	}
	if n := query[int](t, s, "SELECT COUNT(*) FROM d.t"); n != 3 {
		t.Errorf("got %d rows after it, want 3", n)
	}

	// A server that goes away is an error, not a mismatch.
	statements, err = scratch.ParseSQL(strings.NewReader("SELECT 1;\nSELECT SLEEP(100);"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := s.RunSQL(t.Context(), statements)
		ended <- err
	}()
	for query[int](t, s, "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP(%'") == 0 {
	}
	die(t, s)
	if err := <-ended; !errors.Is(err, scratch.ErrEnded) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v, want %v in line 2", err, scratch.ErrEnded)
	}
	_, errCheck := s.CheckTables(t.Context(), scratch.CheckOptions{})
	_, errCount := s.CountRows(t.Context(), server.CountOptions{})
	_, errRun := s.RunSQL(t.Context(), statements)
	for _, err := range []error{errCheck, errCount, errRun} {
		if !errors.Is(err, scratch.ErrEnded) || !strings.Contains(err.Error(), "signal 11") {
			t.Errorf("got %v, want %v and the signal", err, scratch.ErrEnded)
		}
	}
}

func TestMismatch(t *testing.T) {
	rows := strings.Split(strings.Repeat("r ", 9)+"r", " ")
	m := scratch.Mismatch{Statement: scratch.Statement{Line: 7, Want: rows[:1]}, Got: rows, Rows: 500}
	if got, want := m.String(), `line 7: got 500 rows ["r" "r" "r" "r" "r"]…, want "r"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
