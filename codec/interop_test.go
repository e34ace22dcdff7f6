package codec

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mbwrap/mbwrap/internal/testenv"
)

// run gives stdin to a program and returns its stdout.
func run(t *testing.T, stdin []byte, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Need(t, program), args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, stderr.Bytes())
	}
	return out
}

// mixed is some of everything, long enough for several blocks of every format.
func mixed() []byte {
	return slices.Concat(digitRows(300_000), businessRows(700_000), randomBytes(100_000), make([]byte, 100_000))
}

// TestProgramsReadOurs: the stock programs accept a concatenation of many frames and give back the same bytes.
func TestProgramsReadOurs(t *testing.T) {
	data := mixed()
	for _, name := range []string{"zstd", "gzip", "lz4"} {
		t.Run(name, func(t *testing.T) {
			c := lookup(t, name)
			low, high := c.Levels()
			for _, level := range []int{low, (low + high) / 2} {
				enc := newCompressor(t, c, CompressorOptions{Level: level, BlockSize: 256 << 10})
				file := mustAppend(t, enc, nil, nil)
				for block := range slices.Chunk(data, 256<<10) {
					file = mustAppend(t, enc, file, block)
				}
				run(t, file, name, "-t")
				if got := run(t, file, name, "-d", "-c"); !bytes.Equal(got, data) {
					t.Errorf("level %d: got %d bytes, want the same %d", level, len(got), len(data))
				}
			}
		})
	}
}

// TestProgramsReadOursByName: as files on disk, under the suffix of the codec.
func TestProgramsReadOursByName(t *testing.T) {
	data := businessRows(200_000)
	for _, name := range []string{"zstd", "gzip", "lz4"} {
		t.Run(name, func(t *testing.T) {
			c := lookup(t, name)
			path := filepath.Join(t.TempDir(), "data"+c.Suffix())
			writeFile(t, path, append(compress(t, c, 0, data), compress(t, c, 0, data)...))
			run(t, nil, name, "-t", path)
			if got := run(t, nil, name, "-d", "-c", path); !bytes.Equal(got, append(data, data...)) {
				t.Errorf("got %d bytes, want the same %d", len(got), 2*len(data))
			}
		})
	}
}

// TestWeReadPrograms: what the stock programs write, with the options that change the shape of their files.
func TestWeReadPrograms(t *testing.T) {
	data := mixed()
	for _, row := range []struct {
		codec, program string
		args           []string
	}{
		{"zstd", "zstd", []string{"-1", "-c"}},
		{"zstd", "zstd", []string{"-T0", "-3", "-c"}},
		{"zstd", "zstd", []string{"-3", "--long=27", "-c"}},
		{"zstd", "zstd", []string{"--fast=5", "--no-check", "-c"}},
		{"zstd", "zstd", []string{"-1", "--rsyncable", "-c"}},
		{"gzip", "gzip", []string{"-1", "-c"}},
		{"gzip", "gzip", []string{"-9", "-c"}},
		{"gzip", "pigz", []string{"-1", "-c"}},
		{"gzip", "pigz", []string{"-1", "-i", "-b", "128", "-c"}},
		{"lz4", "lz4", []string{"-1", "-c"}},
		{"lz4", "lz4", []string{"-1", "-B4", "-BD", "-c"}},
		{"lz4", "lz4", []string{"-9", "-B5", "-BX", "--content-size", "-c"}},
		{"lz4", "lz4", []string{"-1", "--no-frame-crc", "-c"}},
	} {
		file := run(t, data, row.program, row.args...)
		if c, ok := Detect(file[:DetectLen]); !ok || c.Name() != row.codec {
			t.Errorf("%s %q: detected %v, %v", row.program, row.args, c, ok)
		}
		c := lookup(t, row.codec)
		if got, err := readAll(c, bytes.NewReader(file)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s %q: got %d bytes, %v, want the same %d", row.program, row.args, len(got), err, len(data))
		}
		for _, n := range []int{len(file) - 1, len(file) / 2, 3} {
			if _, err := readAll(c, bytes.NewReader(file[:n])); err == nil {
				t.Errorf("%s %q cut to %d of %d: got no error", row.program, row.args, n, len(file))
			}
		}
	}
}

// TestWeReadFilesWithNames: gzip headers with a name and a time.
func TestWeReadFilesWithNames(t *testing.T) {
	data := businessRows(100_000)
	path := filepath.Join(t.TempDir(), "stream.xbs")
	writeFile(t, path, data)
	file := run(t, nil, "gzip", "-N", "-c", path)
	if got, err := readAll(lookup(t, "gzip"), bytes.NewReader(append(file, file...))); err != nil || len(got) != 2*len(data) {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, 2*len(data))
	}
}
