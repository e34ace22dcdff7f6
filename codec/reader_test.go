package codec

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

// smallFile returns three frames, the second of nothing, and their data.
func smallFile(t *testing.T, c *Codec) (data, file []byte, ends map[int]bool) {
	ends = map[int]bool{}
	enc := newCompressor(t, c, CompressorOptions{})
	for _, block := range [][]byte{digitRows(200), nil, businessRows(200)} {
		data = append(data, block...)
		file = mustAppend(t, enc, file, block)
		ends[len(file)] = true
	}
	return data, file, ends
}

// TestReadInPieces: the same data, however the source and the caller cut it.
func TestReadInPieces(t *testing.T) {
	forEach(t, func(t *testing.T, c *Codec) {
		enc := newCompressor(t, c, CompressorOptions{BlockSize: 100_000})
		var data, file []byte
		for _, kind := range kinds {
			data = append(data, kind.make(100_000)...)
			file = mustAppend(t, enc, file, data[len(data)-100_000:])
		}
		for _, row := range []struct {
			name string
			src  func(io.Reader) io.Reader
		}{
			{"whole", func(r io.Reader) io.Reader { return r }},
			{"one byte", iotest.OneByteReader},
			{"half", iotest.HalfReader},
			{"error with data", iotest.DataErrReader},
		} {
			got, err := readAll(c, row.src(bytes.NewReader(file)))
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: got %d bytes, %v, want %d", row.name, len(got), err, len(data))
			}
		}
	})
}

func TestReadSmallPieces(t *testing.T) {
	forEach(t, func(t *testing.T, c *Codec) {
		data, file, _ := smallFile(t, c)
		r, err := c.NewReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := iotest.TestReader(r, data); err != nil {
			t.Error(err)
		}
	})
}

// TestCutFile: only the end of a frame is an end.
func TestCutFile(t *testing.T) {
	compressing(t, func(t *testing.T, c *Codec) {
		data, file, ends := smallFile(t, c)
		for n := range file {
			got, err := readAll(c, bytes.NewReader(file[:n]))
			if !bytes.HasPrefix(data, got) {
				t.Fatalf("cut to %d: got wrong data", n)
			}
			if ends[n] && err != nil {
				t.Errorf("cut to %d, the end of a frame: got %v", n, err)
			}
			if !ends[n] && (!errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, ErrCorrupt)) {
				t.Errorf("cut to %d: got %v, want io.ErrUnexpectedEOF and ErrCorrupt", n, err)
			}
		}
	})
}

// TestFlippedFile: a byte turned over is an error, or changes nothing (gzip's time, name of the system and the like).
func TestFlippedFile(t *testing.T) {
	compressing(t, func(t *testing.T, c *Codec) {
		data, file, _ := smallFile(t, c)
		for at := range file {
			bad := slices.Clone(file)
			bad[at] ^= 0xFF
			got, err := readAll(c, bytes.NewReader(bad))
			if err == nil && !bytes.Equal(got, data) {
				t.Errorf("byte %d: got other data and no error", at)
			}
			if err != nil && !errors.Is(err, ErrCorrupt) {
				t.Errorf("byte %d: got %v, want ErrCorrupt", at, err)
			}
			if err == nil && c.Name() != "gzip" {
				t.Errorf("byte %d: got no error", at)
			}
		}
	})
}

func TestGarbageAfterFile(t *testing.T) {
	compressing(t, func(t *testing.T, c *Codec) {
		data, file, _ := smallFile(t, c)
		for _, garbage := range []string{"\x00", "abc", "\x00\x00\x00\x00", "XBSTCK01", string(make([]byte, 512)),
			"and more than ten bytes of text"} {
			got, err := readAll(c, bytes.NewReader(append(slices.Clone(file), garbage...)))
			if !bytes.Equal(got, data) || !errors.Is(err, ErrCorrupt) {
				t.Errorf("%q behind: got %d bytes, %v, want %d and ErrCorrupt", garbage, len(got), err, len(data))
			}
		}
	})
}

func TestReadNothing(t *testing.T) {
	forEach(t, func(t *testing.T, c *Codec) {
		got, err := readAll(c, bytes.NewReader(nil))
		if c.Name() == "none" {
			if len(got) != 0 || err != nil {
				t.Errorf("got %q, %v, want nothing", got, err)
			}
			return
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v, want io.ErrUnexpectedEOF", err)
		}
		r, err := c.NewReader(bytes.NewReader(nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestFailingSource: an error of the source is not damage, and it sticks.
func TestFailingSource(t *testing.T) {
	broken := errors.New("disk on fire")
	forEach(t, func(t *testing.T, c *Codec) {
		_, file, _ := smallFile(t, c)
		for _, n := range []int{0, 1, len(file) / 2, len(file)} {
			r, err := c.NewReader(io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(broken)))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			_, first := io.ReadAll(r)
			if !errors.Is(first, broken) || errors.Is(first, ErrCorrupt) {
				t.Errorf("after %d bytes: got %v, want %v", n, first, broken)
			}
			if _, again := r.Read(make([]byte, 1)); again != first {
				t.Errorf("after %d bytes, again: got %v, want %v", n, again, first)
			}
		}
	})
}

// TestWindowLimit: a header asks for a window of 2 GiB; nothing of that size is allocated.
func TestWindowLimit(t *testing.T) {
	frame := []byte{0x28, 0xB5, 0x2F, 0xFD, 0x04, 21 << 3, 0x43, 0x1F, 0x00, 'a', 1, 2, 3, 4}
	var err error
	used := allocated(func() { _, err = readAll(lookup(t, "zstd"), bytes.NewReader(frame)) })
	if !errors.Is(err, ErrCorrupt) || used > 8<<20 {
		t.Errorf("got %v and %d bytes allocated, want ErrCorrupt and less", err, used)
	}
}

func TestOldFormats(t *testing.T) {
	for _, row := range []struct{ name, codec, file string }{
		{"zstd 0.7", "zstd", "\x27\xB5\x2F\xFD\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"zstd 0.4", "zstd", "\x24\xB5\x2F\xFD\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"legacy lz4", "lz4", "\x02\x21\x4C\x18\x06\x00\x00\x00\x50hello"},
	} {
		if got, err := readAll(lookup(t, row.codec), bytes.NewReader([]byte(row.file))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %q, %v, want ErrCorrupt", row.name, got, err)
		}
	}
}

// TestSkippableFrames: zstd and LZ4 readers pass over frames that are not data.
func TestSkippableFrames(t *testing.T) {
	skip := []byte{0x5A, 0x2A, 0x4D, 0x18, 5, 0, 0, 0, 'n', 'o', 't', 'e', 's'}
	for _, name := range []string{"zstd", "lz4"} {
		c := lookup(t, name)
		data, file, _ := smallFile(t, c)
		got, err := readAll(c, bytes.NewReader(slices.Concat(skip, file, skip, file, skip)))
		if err != nil || !bytes.Equal(got, append(data, data...)) {
			t.Errorf("%s: got %d bytes, %v, want %d", name, len(got), err, 2*len(data))
		}
	}
}
