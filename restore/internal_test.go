package restore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadJournal(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		want map[int]int64
		end  int
	}{
		{"empty", "", map[int]int64{}, 0},
		{"whole", "0 10\n7 0\n", map[int]int64{0: 10, 7: 0}, 9},
		{"torn line", "0 10\n7 12", map[int]int64{0: 10}, 5},
		{"torn in the first line", "0 1", map[int]int64{}, 0},
		{"zeroes after a crash", "0 10\n\x00\x00\x00\n5 5\n", map[int]int64{0: 10}, 5},
		{"no number", "x 10\n", map[int]int64{}, 0},
		{"negative", "0 -1\n", map[int]int64{}, 0},
		{"no space", "0\n", map[int]int64{}, 0},
		{"empty line", "\n0 1\n", map[int]int64{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, end, err := readJournal(strings.NewReader(c.text))
			if err != nil || !maps.Equal(got, c.want) || end != int64(c.end) {
				t.Errorf("got %v up to %d, %v; want %v up to %d", got, end, err, c.want, c.end)
			}
		})
	}
}

func FuzzReadJournal(f *testing.F) {
	f.Add([]byte("0 10\n7 0\n"))
	f.Add([]byte("0 10\n\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		done, end, err := readJournal(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		again, end2, err := readJournal(bytes.NewReader(text[:end]))
		if err != nil || end2 != end || !maps.Equal(done, again) {
			t.Errorf("got %v up to %d, %v; want %v up to %d", again, end2, err, done, end)
		}
	})
}

func TestDecodeState(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"whole", `{"format":1,"phase":"moving"}`, ""},
		{"newer format", `{"format":2,"phase":"moving"}`, "format is 2"},
		{"unknown phase", `{"format":1,"phase":"flying"}`, "unknown phase"},
		{"cut", `{"format":1,"pha`, "unexpected end"},
		{"empty", ``, "unexpected end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := decodeState([]byte(c.text))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestEachSolid(t *testing.T) {
	const k = holeSize
	solid := bytes.Repeat([]byte{1}, k)
	empty := make([]byte, k)
	for _, c := range []struct {
		name   string
		data   []byte
		offset int64
		want   string
	}{
		{"nothing", nil, 0, ""},
		{"all solid", slices.Concat(solid, solid), 0, "0+8192 "},
		{"all empty", slices.Concat(empty, empty), k, ""},
		{"empty in the middle", slices.Concat(solid, empty, empty, solid), k, "4096+4096 16384+4096 "},
		{"empty at both ends", slices.Concat(empty, solid, empty), 0, "4096+4096 "},
		{"short zeroes are written", make([]byte, 100), 0, "0+100 "},
		{"zeroes off the border", make([]byte, 2*k), 10, "10+4086 8192+10 "},
		{"zeroes up to the border", make([]byte, k-10), 10, "10+4086 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got strings.Builder
			err := eachSolid(c.data, c.offset, func(piece []byte, at int64) error {
				if !bytes.Equal(piece, c.data[at-c.offset:][:len(piece)]) {
					t.Errorf("piece at %d is not the data's", at)
				}
				fmt.Fprintf(&got, "%d+%d ", at, len(piece))
				return nil
			})
			if err != nil || got.String() != c.want {
				t.Errorf("got %q, %v; want %q", got.String(), err, c.want)
			}
		})
	}
}

func TestHoles(t *testing.T) {
	page := func(flags ...byte) []byte { return append(make([]byte, flagsOffset), flags...) }
	for _, c := range []struct {
		name   string
		pieces [][]byte
		want   bool
	}{
		{"full_crc32, plain", [][]byte{page(0, 0, 0, 0x15)}, false},
		{"full_crc32, zlib", [][]byte{page(0, 0, 0, 0x35)}, true},
		{"full_crc32, snappy", [][]byte{page(0, 0, 0, 0xd5)}, true},
		{"older, plain", [][]byte{page(0, 0, 0, 0x21)}, false},
		{"older, row format compressed", [][]byte{page(0, 0, 0, 0x29)}, false},
		{"older, page_compressed", [][]byte{page(0, 1, 0, 0x21)}, true},
		{"all zero", [][]byte{page(0, 0, 0, 0)}, false},
		{"cut in the flags", [][]byte{page(0, 0), {0}, {0x35}}, true},
		{"one byte at a time", slices.Collect(slices.Chunk(page(0, 0, 0, 0x35), 1)), true},
		{"too short", [][]byte{page(0, 0, 0)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := holes{possible: true}
			at := int64(0)
			for _, p := range c.pieces {
				h.see(at, p)
				at += int64(len(p))
			}
			if h.wanted != c.want {
				t.Errorf("got %v, want %v", h.wanted, c.want)
			}
		})
	}
	h := holes{possible: true}
	h.see(0, page()[:10])
	h.see(20, page(0, 0, 0, 0x35))
	if h.wanted {
		t.Error("a file that did not come in order: got holes, want none")
	}
}

// TestMovingStopped stops a restore after each step of moving the files into place, and goes on with it.
func TestMovingStopped(t *testing.T) {
	names := []string{"db", "backup-my.cnf", "ibdata1"}
	s := source{Stream: "s", Identity: "i"}
	for moved := range len(names) + 1 {
		t.Run(fmt.Sprint(moved, " moved"), func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "t")
			fillUnfinished(t, name, s, names[:moved])
			r := &runner{stream: &Stream{Name: "s", Identity: "i"}, extractOnly: true, Options: Options{Target: name, NoPrepare: true}}
			result, err := r.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !result.Resumed || result.Files != 3 || result.Bytes != 9 {
				t.Errorf("got resumed %v, %d files of %d bytes; want true, 3 of 9", result.Resumed, result.Files, result.Bytes)
			}
			entries, err := os.ReadDir(name)
			if err != nil || len(entries) != 3 {
				t.Errorf("got %v, %v; want %q", entries, err, names)
			}
		})
	}
}

// TestMovingAside goes on with a restore that had put everything aside and was stopped while that was moved.
func TestMovingAside(t *testing.T) {
	for _, moved := range []bool{false, true} {
		name := filepath.Join(t.TempDir(), "t")
		s := source{Stream: "s", Identity: "i"}
		fillUnfinished(t, name, s, nil)
		r := &runner{stream: &Stream{Name: "s", Identity: "i"}, extractOnly: true, Options: Options{Target: name, NoPrepare: true, Salvage: true}}
		tg, err := inspect(name)
		if err != nil {
			t.Fatal(err)
		}
		if r.work, err = tg.begin(s, "test"); err != nil {
			t.Fatal(err)
		}
		r.losses.add("ibdata2", cause{reason: "gone"})
		err = r.putAside([]string{"ibdata2"})
		w := r.work
		w.state.Salvaged, w.state.Aside, w.state.Lost, w.state.LostFiles = true, true, r.losses.list(), 1
		w.state.Entries = []string{asideName}
		if err = errors.Join(err, w.phase(PhaseHandOver)); err == nil && moved {
			err = w.moveUp(asideName)
		}
		if err := errors.Join(err, w.close()); err != nil {
			t.Fatal(err)
		}
		r.work, r.losses = nil, losses{}
		result, err := r.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if result.Files != 3 || result.LostFiles != 1 || result.Aside != filepath.Join(name, asideName) || result.Lost[0].Path != "ibdata2" {
			t.Errorf("got %+v, want 3 files put aside and ibdata2 lost", result)
		}
		if _, err := os.Stat(filepath.Join(name, asideName, asideFiles, "ibdata1")); err != nil {
			t.Error(err)
		}
	}
}

// fillUnfinished makes a target in the moving phase, of which some entries were moved.
func fillUnfinished(t *testing.T, name string, s source, moved []string) {
	t.Helper()
	tg, err := inspect(name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := tg.begin(s, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if err := w.data.Mkdir("db", dirMode); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"db/t", "backup-my.cnf", "ibdata1"} {
		if err := writeFile(w.data, file, []byte("abc")); err != nil {
			t.Fatal(err)
		}
	}
	w.state.Entries = []string{"db", "backup-my.cnf", "ibdata1"}
	if err := w.phase(PhaseHandOver); err != nil {
		t.Fatal(err)
	}
	for _, entry := range moved {
		if err := w.moveUp(entry); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMovingForgotten starts over when it can't be known whether the stream is the same.
func TestMovingForgotten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "t")
	fillUnfinished(t, name, source{Stream: "-"}, []string{"db", "backup-my.cnf"})
	r := &runner{extractOnly: true, stream: &Stream{Name: "-", Reader: strings.NewReader("")}, Options: Options{Target: name, NoPrepare: true}}
	_, err := r.run(t.Context())
	if err == nil {
		t.Fatal("empty stream: got no error")
	}
	entries, err := os.ReadDir(name)
	if err != nil || len(entries) != 1 || entries[0].Name() != unfinishedName {
		t.Errorf("got %v, %v; want the mark only", entries, err)
	}
}

func TestParseOwner(t *testing.T) {
	for _, c := range []struct {
		text     string
		uid, gid int
		name     string
		fails    bool
	}{
		{text: "root", uid: 0, gid: 0, name: "root:root"},
		{text: "root:", uid: 0, gid: 0, name: "root:root"},
		{text: "root:12345", uid: 0, gid: 12345, name: "root:12345"},
		{text: "12345:54321", uid: 12345, gid: 54321, name: "12345:54321"},
		{text: "12345", uid: 12345, gid: -1, name: "12345:"},
		{text: ":0", uid: -1, gid: 0, name: ":root"},
		{text: ":root", uid: -1, gid: 0, name: ":root"},
		{text: ":", fails: true},
		{text: "no such user", fails: true},
		{text: "root:no such group", fails: true},
		{text: "-5", fails: true},
	} {
		got, err := parseOwner(c.text)
		if c.fails {
			if err == nil {
				t.Errorf("%q: got %v, want an error", c.text, got)
			}
			continue
		}
		if want := (owner{c.uid, c.gid, c.name}); err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", c.text, got, err, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"/var/lib/mysql": "/var/lib/mysql", "/a b": "'/a b'", "it's": `'it'\''s'`, "": "''", "$(x)": "'$(x)'",
	} {
		if got := quote(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestIsUserTable(t *testing.T) {
	for name, want := range map[string]bool{
		"shop/orders.ibd": true, "shop/orders.frm": true, "shop/db.opt": false, "mysql/user.MAD": false,
		"sys/x.frm": false, "performance_schema/x.frm": false, "ibdata1": false, "#rocksdb/x": false,
	} {
		if got := isUserTable(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

// TestProvenReader leaves out what came just before an error, and nothing else.
func TestProvenReader(t *testing.T) {
	wrong := errors.New("wrong checksum")
	for _, c := range []struct {
		size, hold, want int
		err              error
	}{
		{0, 10, 0, nil}, {5, 10, 5, nil}, {1 << 20, 10, 1 << 20, nil}, {heldPiece, 10, heldPiece, nil},
		{5, 10, 0, wrong}, {10, 10, 0, wrong}, {11, 10, 1, wrong}, {1 << 20, 300_000, 1<<20 - 300_000, wrong}, {1 << 20, 0, 1 << 20, wrong},
	} {
		var src io.Reader = bytes.NewReader(make([]byte, c.size))
		if c.err != nil {
			src = io.MultiReader(src, iotest.ErrReader(c.err))
		}
		p := &provenReader{r: src, hold: int64(c.hold)}
		got, err := io.ReadAll(p)
		if err != nil || len(got) != c.want || p.err != c.err {
			t.Errorf("%d bytes, %d held, then %v: got %d bytes, %v, %v, want %d", c.size, c.hold, c.err, len(got), err, p.err, c.want)
		}
	}
}
