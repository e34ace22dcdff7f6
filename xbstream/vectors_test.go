package xbstream_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/xbstream"
)

var update = flag.Bool("update", false, "write testdata/vectors")

const vectorDir = "testdata/vectors"

// String is the vector's file: a header of "key: value" lines, an empty line, and the stream in hexadecimal.
func (v vector) String() string {
	var b strings.Builder
	want := "ok"
	if v.kind != 0 {
		want = v.kind.String()
	}
	fmt.Fprintf(&b, "about: %s\nwant: %s\n", v.about, want)
	if v.kind != 0 {
		fmt.Fprintf(&b, "offset: %d\npath: %s\n", v.offset, strconv.Quote(v.path))
	}
	fmt.Fprintf(&b, "expect: %s\n\n", map[bool]string{true: "backup", false: "any"}[v.backup])
	for line := v.stream; len(line) > 0; line = line[min(32, len(line)):] {
		fmt.Fprintf(&b, "%x\n", line[:min(32, len(line))])
	}
	return b.String()
}

func parseVector(t *testing.T, file string) vector {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	header, body, _ := strings.Cut(string(text), "\n\n")
	v := vector{name: strings.TrimSuffix(filepath.Base(file), ".txt")}
	for line := range strings.Lines(header) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "want":
			v.kind = parseKind(t, value)
		case "offset":
			v.offset, err = strconv.ParseInt(value, 10, 64)
		case "path":
			v.path, err = strconv.Unquote(value)
		case "expect":
			v.backup = value == "backup"
		case "about":
			v.about = value
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if v.stream, err = hex.DecodeString(strings.ReplaceAll(body, "\n", "")); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return v
}

func parseKind(t *testing.T, name string) xbstream.Kind {
	t.Helper()
	if name == "ok" {
		return 0
	}
	for k := xbstream.KindMagic; k <= xbstream.KindHandler; k++ {
		if k.String() == name {
			return k
		}
	}
	t.Fatalf("unknown kind %q", name)
	return 0
}

// readVectors returns the vectors in testdata, after writing them when asked.
func readVectors(t *testing.T) []vector {
	t.Helper()
	if *update {
		writeVectors(t)
	}
	files, err := filepath.Glob(filepath.Join(vectorDir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	var list []vector
	for _, f := range files {
		list = append(list, parseVector(t, f))
	}
	return list
}

func writeVectors(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(vectorDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors() {
		if err := os.WriteFile(filepath.Join(vectorDir, v.name+".txt"), []byte(v.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (v vector) expect() xbstream.Expect {
	if v.backup {
		return xbstream.ExpectBackup
	}
	return xbstream.ExpectAny
}

// check writes the stream in pieces of step bytes.
func check(stream []byte, step int, o xbstream.Options) (xbstream.Stats, error) {
	c := xbstream.NewChecker(o)
	for rest := stream; len(rest) > 0; rest = rest[min(step, len(rest)):] {
		if _, err := c.Write(rest[:min(step, len(rest))]); err != nil {
			break
		}
	}
	err := c.Close()
	return c.Stats(), err
}

// read reads the stream with a Reader, whose payloads it drops, and copies it to a Writer on the way.
func read(src io.Reader, dst io.Writer) error {
	r, w := xbstream.NewReader(src), xbstream.NewWriter(dst)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return w.Close()
		}
		if err != nil {
			return err
		}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("writer: %w", err)
		}
		if _, err := io.Copy(w, r); err != nil {
			return err
		}
	}
}

func kindOf(err error) xbstream.Kind {
	var e *xbstream.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

func (v vector) verify(t *testing.T, how string, err error) {
	t.Helper()
	var e *xbstream.Error
	switch {
	case v.kind == 0 && err != nil:
		t.Errorf("%s: got %v, want no error", how, err)
	case v.kind == 0:
	case !errors.As(err, &e):
		t.Errorf("%s: got %v, want kind %v", how, err, v.kind)
	case e.Kind != v.kind || e.Offset != v.offset || e.Path != v.path:
		t.Errorf("%s: got %v at %d of %q (%v), want %v at %d of %q", how, e.Kind, e.Offset, e.Path, err, v.kind, v.offset, v.path)
	}
}

func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.name, func(t *testing.T) {
			var stats xbstream.Stats
			for step := 1; step <= len(v.stream)+1 && !t.Failed(); step++ {
				var err error
				stats, err = check(v.stream, step, xbstream.Options{Expect: v.expect()})
				v.verify(t, fmt.Sprintf("checker, step %d", step), err)
			}
			if v.kind == xbstream.KindMetadata {
				v.kind = 0 // only a Checker asks for these files
			}
			var again bytes.Buffer
			v.verify(t, "reader", read(bytes.NewReader(v.stream), &again))
			if v.kind == 0 && stats.Ignored == 0 && !bytes.Equal(again.Bytes(), v.stream) {
				t.Errorf("writer: got %x, want %x", again.Bytes(), v.stream)
			}
		})
	}
}

// TestVectorFiles holds the files in testdata against the table they were written from.
func TestVectorFiles(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range vectors() {
		if seen[v.name] {
			t.Errorf("%s: name is not unique", v.name)
		}
		seen[v.name] = true
		got, err := os.ReadFile(filepath.Join(vectorDir, v.name+".txt"))
		if err != nil || string(got) != v.String() {
			t.Errorf("%s: file differs from the table (%v); run go test -run TestVectors -update", v.name, err)
		}
	}
}
