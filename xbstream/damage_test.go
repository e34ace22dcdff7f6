package xbstream_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mbwrap/mbwrap/xbstream"
)

// recorder is a Handler that keeps what it is shown, in the model's form.
type recorder struct {
	chunks []modelChunk
	places []xbstream.Chunk
}

func (r *recorder) Chunk(c *xbstream.Chunk) error {
	r.chunks = append(r.chunks, modelChunk{typ: c.Type, path: c.Path, newPath: c.NewPath})
	place := *c
	place.Extents = slices.Clone(c.Extents)
	r.places = append(r.places, place)
	return nil
}

func (r *recorder) Data(p []byte) error {
	r.chunks[len(r.chunks)-1].payload += string(p)
	return nil
}

// agree checks a stream by all implementations and returns their verdict.
func agree(t *testing.T, stream []byte, steps ...int) xbstream.Kind {
	t.Helper()
	var m model
	want := m.judge(stream)
	for _, step := range steps {
		var rec recorder
		_, err := check(stream, step, xbstream.Options{Handler: &rec, Expect: xbstream.ExpectAny})
		if got := kindOf(err); got != want || got == 0 && err != nil {
			t.Fatalf("checker, step %d: got %v (%v), the model says %v, for %x", step, got, err, want, stream)
		}
		if want == 0 && !slices.Equal(rec.chunks, m.chunks) {
			t.Fatalf("checker, step %d: got chunks %v, want %v, for %x", step, rec.chunks, m.chunks, stream)
		}
	}
	var again bytes.Buffer
	err := read(bytes.NewReader(stream), &again)
	if got := kindOf(err); got != want || got == 0 && err != nil {
		t.Fatalf("reader: got %v (%v), the model says %v, for %x", got, err, want, stream)
	}
	if want == 0 && m.skipped == 0 && !bytes.Equal(again.Bytes(), stream) {
		t.Fatalf("writer: got %x, want %x", again.Bytes(), stream)
	}
	return want
}

// goodStreams returns every good vector by name.
func goodStreams() map[string][]byte {
	good := map[string][]byte{}
	for _, v := range vectors() {
		if v.kind == 0 {
			good[v.name] = v.stream
		}
	}
	return good
}

// borders returns the offsets at which no chunk is cut.
func borders(stream []byte) map[int]bool {
	at := map[int]bool{}
	for n := 0; n < len(stream); {
		at[n] = true
		_, chunk := field(stream, n)
		n += len(chunk)
	}
	return at
}

func TestCutAtEveryByte(t *testing.T) {
	for name, stream := range goodStreams() {
		t.Run(name, func(t *testing.T) {
			at := borders(stream)
			for n := range stream {
				got := agree(t, stream[:n], 1, n+1)
				// Where no chunk is cut the rest may be a whole stream; else it must not pass as one.
				if got == 0 && !at[n] {
					t.Errorf("cut at %d: accepted", n)
				}
				// 8 bytes behind the path a sparse chunk looks like a seek, and its file has no end.
				if !at[n] && got != xbstream.KindTruncated && !strings.Contains(name, "sparse") {
					t.Errorf("cut at %d: got %v, want truncated", n, got)
				}
			}
		})
	}
}

// TestCutBackup cuts a whole backup at every byte: each cut is found, also those between two chunks.
func TestCutBackup(t *testing.T) {
	stream := mixed()
	for n := range stream {
		if _, err := check(stream[:n], 64, xbstream.Options{}); err == nil {
			t.Errorf("cut at %d: accepted", n)
		}
	}
}

// field says which part of a chunk the byte at n is in, and of which chunk.
func field(stream []byte, n int) (name string, chunk []byte) {
	for at := 0; ; {
		b := stream[at:]
		p := 14 + int(binary.LittleEndian.Uint32(b[10:]))
		parts := []struct {
			name string
			end  int
		}{{"magic", 8}, {"flags", 9}, {"type", 10}, {"path length", 14}, {"path", p}}
		add := func(name string, size int) {
			parts = append(parts, struct {
				name string
				end  int
			}{name, parts[len(parts)-1].end + size})
		}
		switch {
		case b[9] == 'S' && (len(b) == p+8 || string(b[p+8:p+16]) == magic):
			add("seek", 8)
		case b[9] == 'S':
			add("entries", 4)
			add("size", 8)
			add("offset", 8)
			add("crc", 4)
			add("map", 8*int(binary.LittleEndian.Uint32(b[p:])))
			add("payload", int(binary.LittleEndian.Uint64(b[p+4:])))
		case b[9] == 'R':
			add("new length", 4)
			add("new path", int(binary.LittleEndian.Uint32(b[p:])))
		case b[9] != 'E' && b[9] != 'D':
			add("size", 8)
			add("offset", 8)
			add("crc", 4)
			add("payload", int(binary.LittleEndian.Uint64(b[p:])))
		}
		total := parts[len(parts)-1].end
		for _, part := range parts {
			if n-at < part.end {
				return part.name, b[:total]
			}
		}
		at += total
	}
}

// mayPass says which single flipped bits a reader cannot find, because heads have no checksum: those after which the
// stream is another good stream.
func mayPass(name string, chunk []byte) bool {
	switch name {
	case "flags":
		return true // the two known bits; the others are always found
	case "seek", "new path":
		return true
	case "type", "path":
		// An ignorable payload may turn into a skipped chunk of an unknown type.
		return chunk[9] != 'P' && chunk[9] != 'S' || chunk[8]&1 != 0 && name == "type"
	case "offset":
		return chunk[9] == 'X' || chunk[9] == 'Z' // of a skipped chunk
	}
	return false
}

func TestFlipEveryByte(t *testing.T) {
	for name, stream := range goodStreams() {
		flips := []byte{1, 2, 4, 8, 16, 32, 64, 128, 255}
		if len(stream) > 60 {
			flips = []byte{1, 255}
		}
		t.Run(name, func(t *testing.T) {
			for n := range stream {
				part, chunk := field(stream, n)
				for _, bits := range flips {
					damaged := slices.Clone(stream)
					damaged[n] ^= bits
					if got := agree(t, damaged, 7, len(damaged)); got == 0 && !mayPass(part, chunk) {
						t.Errorf("byte %d (%s of %q) with bits %02x flipped: not found", n, part, chunk, bits)
					}
				}
			}
		})
	}
}

// TestReaderSources reads a good stream from sources that behave badly but legally.
func TestReaderSources(t *testing.T) {
	stream := mixed()
	for name, src := range map[string]io.Reader{
		"one byte": iotest.OneByteReader(bytes.NewReader(stream)), "half": iotest.HalfReader(bytes.NewReader(stream)),
		"data with error": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		if err := read(src, io.Discard); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
	}
}

func TestReaderSourceError(t *testing.T) {
	stream := mixed()
	for n := range stream {
		src := io.MultiReader(bytes.NewReader(stream[:n]), iotest.ErrReader(errBroken))
		err := read(src, io.Discard)
		if want := fmt.Sprintf("read stream at offset %d: broken", n); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
