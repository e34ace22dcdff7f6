package xbstream_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/xbstream"
)

// interopFiles are written by one side and read by the other.
func interopFiles() map[string]string {
	return map[string]string{
		"empty": "", "one": "x", "db/t.ibd": strings.Repeat("page", 3<<20), "db/we@0020ird@0023t@0kb.frm": "frm",
		"db/p#P#p0.MYD": strings.Repeat("z", 10<<20), "db/empty.MYD": "",
	}
}

// TestReadsMbstream reads what mbstream -c writes.
func TestReadsMbstream(t *testing.T) {
	tool, dir, want := testenv.Need(t, "mbstream"), t.TempDir(), interopFiles()
	args := []string{"-c"}
	for name, data := range want {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
	}
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Dir = dir
	stream, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if stats, err := check(stream, 1<<20, xbstream.Options{Expect: xbstream.ExpectAny}); err != nil || stats.Files != len(want) {
		t.Errorf("checker: got %+v, %v, want %d files", stats, err, len(want))
	}
	got, err := contents(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range want {
		if file, ok := got[name]; !ok || file != data {
			t.Errorf("%s: got %d bytes, want %d", name, len(file), len(data))
		}
	}
}

// contents reads a stream of plain files into memory.
func contents(src io.Reader) (map[string]string, error) {
	files, r := map[string]string{}, xbstream.NewReader(src)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		files[h.Path] += string(data)
	}
}

// TestMbstreamReads lets mbstream -x extract what the Writer writes.
func TestMbstreamReads(t *testing.T) {
	tool, dir := testenv.Need(t, "mbstream"), t.TempDir()
	var b bytes.Buffer
	w := xbstream.NewWriter(&b)
	for name, data := range interopFiles() {
		if _, err := w.WriteFile(name, strings.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	extract(t, tool, dir, b.Bytes())
	compareFiles(t, dir, interopFiles())
}

// TestMbstreamReadsChanges lets mbstream -x do renames, removes, seeks and rewrites. Each end follows a payload of its file
// and no remove has a prefix in a directory, since mbstream gets these wrong.
func TestMbstreamReadsChanges(t *testing.T) {
	tool, dir := testenv.Need(t, "mbstream"), t.TempDir()
	stream := join(file("db/a", "a"), file("db/b", "b"), file("db/c", "c"), file("d/x", "x"),
		rename("db/a", "db/n"), remove("db/b"), rename("db/gone", "db/too"), remove("d"),
		rewrite("db/c", 0, "new "), rewrite("db/c", 4, "c"), end("db/c"),
		payload("log", 0, "0123456789"), seek("log", 3), payload("log", 3, "abc"), end("log"))
	var again bytes.Buffer
	if err := read(bytes.NewReader(stream), &again); err != nil {
		t.Fatal(err)
	}
	extract(t, tool, dir, again.Bytes())
	compareFiles(t, dir, map[string]string{"db/n": "a", "db/c": "new c", "log": "012abc6789"})
}

func extract(t *testing.T, tool, dir string, stream []byte) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool, "-x", "-C", dir)
	cmd.Stdin = bytes.NewReader(stream)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("mbstream -x: %v\n%s", err, out)
	}
}

func compareFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if text, ok := want[name]; !ok || string(data) != text {
			t.Errorf("%s: got %d bytes, want %d (expected: %v)", name, len(data), len(text), ok)
		}
		delete(want, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		t.Errorf("%s: not extracted", name)
	}
}

// TestMbstreamStatus records why the tool's status proves nothing: it is 0 for streams that we refuse.
func TestMbstreamStatus(t *testing.T) {
	tool := testenv.Need(t, "mbstream")
	whole := join(file("a", "x"), file("b", "y"))
	for name, stream := range map[string][]byte{
		"empty": nil, "cut before an end": whole[:36], "two archives": join(whole, whole), "path": payload("../x", 0, "x"),
		"rename of an open file": join(payload("a", 0, "x"), rename("a", "b"), end("a")),
	} {
		cmd := exec.CommandContext(t.Context(), tool, "-x", "-C", t.TempDir())
		cmd.Stdin = bytes.NewReader(stream)
		status := fmt.Sprint(cmd.Run())
		if _, err := check(stream, 100, xbstream.Options{Expect: xbstream.ExpectAny}); err == nil || status != "<nil>" {
			t.Errorf("%s: we say %v, mbstream's status is %s; want an error and 0", name, err, status)
		}
	}
}
