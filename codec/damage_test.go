package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"
)

// compressing runs a subtest for every codec that can detect damage: none can't, but by size.
func compressing(t *testing.T, test func(t *testing.T, c *Codec)) {
	forEach(t, func(t *testing.T, c *Codec) {
		if c.Name() == "none" {
			t.Skip("plain bytes carry no checksum")
		}
		test(t, c)
	})
}

// smallFrames returns frames of a few hundred bytes of different make.
func smallFrames(t *testing.T, c *Codec) (blocks, frames [][]byte) {
	low, high := c.Levels()
	for _, kind := range kinds {
		for _, level := range []int{low, high} {
			block := kind.make(300)
			blocks = append(blocks, block)
			frames = append(frames, compress(t, c, level, block))
		}
	}
	return blocks, frames
}

func TestCutFrame(t *testing.T) {
	forEach(t, func(t *testing.T, c *Codec) {
		dec := newDecompressor(t, c)
		blocks, frames := smallFrames(t, c)
		for i, frame := range frames {
			for n := range frame {
				out, err := dec.Append([]byte("x"), frame[:n], len(blocks[i]))
				if !errors.Is(err, ErrCorrupt) || len(out) != 1 {
					t.Fatalf("frame %d cut to %d of %d: got %d bytes, %v, want ErrCorrupt", i, n, len(frame), len(out), err)
				}
			}
		}
	})
}

// TestFlippedFrame turns every byte over and every bit. All are found, but for single bits that change nothing in the
// data: the fill bits of deflate, two hints in gzip's header, some bits of zstd's code tables.
func TestFlippedFrame(t *testing.T) {
	compressing(t, func(t *testing.T, c *Codec) {
		dec := newDecompressor(t, c)
		blocks, frames := smallFrames(t, c)
		for i, frame := range frames {
			for at := range frame {
				for _, mask := range []byte{0xFF, 1, 2, 4, 8, 16, 32, 64, 128} {
					bad := slices.Clone(frame)
					bad[at] ^= mask
					out, err := dec.Append(nil, bad, len(blocks[i]))
					if err == nil && c.Name() != "lz4" && mask != 0xFF && bytes.Equal(out, blocks[i]) {
						continue
					}
					if !errors.Is(err, ErrCorrupt) {
						t.Errorf("frame %d byte %d mask %#02x: got %v, want ErrCorrupt", i, at, mask, err)
					}
				}
			}
		}
	})
}

func TestWrongSize(t *testing.T) {
	forEach(t, func(t *testing.T, c *Codec) {
		dec := newDecompressor(t, c)
		blocks, frames := smallFrames(t, c)
		for i, frame := range frames {
			for _, size := range []int{-1, 0, 1, 299, 301, 1 << 20, 1 << 40, 1<<62 + 300} {
				if _, err := dec.Append(nil, frame, size); err == nil {
					t.Errorf("frame %d as %d bytes: got no error", i, size)
				}
			}
			// The decompressor is still good.
			if got, err := dec.Append(nil, frame, 300); err != nil || !bytes.Equal(got, blocks[i]) {
				t.Errorf("frame %d as 300 bytes: got %d bytes, %v", i, len(got), err)
			}
		}
	})
}

func TestNotOneFrame(t *testing.T) {
	forEach(t, func(t *testing.T, c *Codec) {
		dec := newDecompressor(t, c)
		block := businessRows(300)
		frame, empty := compress(t, c, 0, block), compress(t, c, 0, nil)
		skip := []byte{0x50, 0x2A, 0x4D, 0x18, 1, 0, 0, 0, 'x'}
		for _, row := range []struct {
			name string
			src  []byte
		}{
			{"a byte behind", append(slices.Clone(frame), 0)},
			{"zeros behind", append(slices.Clone(frame), make([]byte, 8)...)},
			{"two frames", append(slices.Clone(frame), frame...)},
			{"an empty frame behind", append(slices.Clone(frame), empty...)},
			{"an empty frame before", append(slices.Clone(empty), frame...)},
			{"a skippable frame behind", append(slices.Clone(frame), skip...)},
			{"a skippable frame before", append(slices.Clone(skip), frame...)},
			{"nothing", nil},
		} {
			if c.Name() == "none" && len(row.src) == len(block) {
				continue // an empty frame is nothing
			}
			if _, err := dec.Append(nil, row.src, len(block)); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: got %v, want ErrCorrupt", row.name, err)
			}
		}
	})
}

// TestLyingFrames: headers that were made to match a wrong size.
func TestLyingFrames(t *testing.T) {
	zeros := make([]byte, 1<<20)
	patch := func(name string, at int, value []byte) []byte {
		frame := compress(t, lookup(t, name), 1, zeros)
		if at < 0 {
			at += len(frame)
		}
		copy(frame[at:], value)
		return frame
	}
	le := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	// A frame that declares nothing: a window of 1 KiB, one run of 1000 bytes, any checksum.
	unsized := []byte{0x28, 0xB5, 0x2F, 0xFD, 0x04, 0x00, 0x43, 0x1F, 0x00, 'a', 1, 2, 3, 4}
	for _, row := range []struct {
		name, codec string
		frame       []byte
		size        int
	}{
		{"zstd declares less", "zstd", patch("zstd", 5, le(10)), 10},
		{"zstd declares more", "zstd", patch("zstd", 5, le(2<<20)), 2 << 20},
		{"zstd declares far more", "zstd", patch("zstd", 5, le(1<<31)), 1 << 31},
		{"zstd run is longer", "zstd", unsized, 10},
		{"zstd run is shorter", "zstd", unsized, 1001},
		{"zstd run is right, its checksum not", "zstd", unsized, 1000},
		{"gzip declares less", "gzip", patch("gzip", -4, le(10)), 10},
		{"gzip declares nothing", "gzip", patch("gzip", -4, le(0)), 0},
		{"gzip declares more", "gzip", patch("gzip", -4, le(1<<20+1)), 1<<20 + 1},
		{"gzip declares far more", "gzip", patch("gzip", -4, le(1<<31)), 1 << 31},
		{"gzip, modulo 4 GiB", "gzip", patch("gzip", -4, le(1<<20)), 1<<32 + 1<<20},
		{"lz4 declares less", "lz4", patch("lz4", 6, le(10)), 10},
		{"lz4 declares far more", "lz4", patch("lz4", 6, le(1<<31)), 1 << 31},
	} {
		dec := newDecompressor(t, lookup(t, row.codec))
		var err error
		used := allocated(func() { _, err = dec.Append(nil, row.frame, row.size) })
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", row.name, err)
		}
		if used > 8<<20 {
			t.Errorf("%s: got %d bytes allocated, want less", row.name, used)
		}
	}
}

// allocated returns how many bytes of Go memory f took.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestZstdHeaders: what checkZstd refuses without asking the decoder.
func TestZstdHeaders(t *testing.T) {
	const magic = "\x28\xB5\x2F\xFD"
	for _, row := range []struct{ name, frame, want string }{
		{"old magic", "\x27\xB5\x2F\xFD\x24\x00\x01\x00\x00abcd", "unexpected magic"},
		{"reserved bit", magic + "\x2C\x00\x01\x00\x00abcd", "reserved bits"},
		{"unused bit", magic + "\x34\x00\x01\x00\x00abcd", "reserved bits"},
		{"no checksum", magic + "\x20\x00\x01\x00\x00", "no checksum"},
		{"dictionary", magic + "\x25\x00\x00\x01\x00\x00abcd", "dictionary"},
		{"no window", magic + "\x04", "cut short in the frame header"},
		{"no size", magic + "\x24", "cut short in the frame header"},
		{"size out of range", magic + "\xE4\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x00\x00abcd", "out of range"},
		{"reserved block", magic + "\x24\x00\x07\x00\x00abcd", "reserved block type"},
		{"huge block", magic + "\x24\x00\xFD\xFF\xFFabcd", "at most 131072"},
		{"no block", magic + "\x24\x00\x01", "cut short in the block header"},
		{"no last block", magic + "\x24\x00\x00\x00\x00", "cut short in the block header"},
		{"no checksum bytes", magic + "\x24\x00\x01\x00\x00abc", "cut short in the checksum"},
		{"cut block", magic + "\x24\x08\x41\x00\x00abcd", "cut short in the block"},
		{"empty, wrong checksum", magic + "\x24\x00\x01\x00\x00abcd", ""},
	} {
		err := checkZstd([]byte(row.frame), 0)
		if row.name == "cut block" {
			err = checkZstd([]byte(row.frame), 8)
		}
		checkError(t, row.name, err, row.want)
	}
}

// TestLZ4Headers: what checkLZ4 refuses without asking the decoder.
func TestLZ4Headers(t *testing.T) {
	const magic = "\x04\x22\x4D\x18"
	for _, row := range []struct{ name, frame, want string }{
		{"legacy", "\x02\x21\x4C\x18\x64\x40\xA7\x00\x00\x00\x00abcd", "unexpected magic"},
		{"version 2", magic + "\xA4\x40\xA7\x00\x00\x00\x00abcd", "unknown version"},
		{"no checksum", magic + "\x60\x40\xA7\x00\x00\x00\x00", "no checksum"},
		{"dictionary", magic + "\x65\x40\x00\x00\x00\x00\xA7\x00\x00\x00\x00abcd", "dictionary"},
		{"block size 3", magic + "\x64\x30\xA7\x00\x00\x00\x00abcd", "unknown block size"},
		{"no size", magic + "\x6C\x40\xA7\x00\x00\x00\x00", "cut short in the frame header"},
		{"wrong size", magic + "\x6C\x40\x01\x00\x00\x00\x00\x00\x00\x00\xA7\x00\x00\x00\x00abcd", "holds 1 bytes, want 0"},
		{"huge block", magic + "\x64\x40\xA7\x01\x00\x01\x00abcd", "at most 65536"},
		{"no end mark", magic + "\x64\x40\xA7\x00\x00", "cut short in the block header"},
		{"cut block", magic + "\x64\x40\xA7\x08\x00\x00\x80abcd", "cut short in the block"},
		{"cut block checksum", magic + "\x74\x40\xA7\x04\x00\x00\x80abcd123", "cut short in the block"},
		{"no checksum bytes", magic + "\x64\x40\xA7\x00\x00\x00\x00abc", "cut short in the checksum"},
		{"block checksum, wrong", magic + "\x74\x40\xA7\x04\x00\x00\x80abcd1234\x00\x00\x00\x00abcd", ""},
	} {
		checkError(t, row.name, checkLZ4([]byte(row.frame), 0), row.want)
	}
}

func checkError(t *testing.T, name string, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
		return
	}
	if !errors.Is(err, ErrCorrupt) || !bytes.Contains([]byte(err.Error()), []byte(want)) {
		t.Errorf("%s: got %v, want %q", name, err, want)
	}
	if short := bytes.Contains([]byte(want), []byte("cut short")); short != errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%s: got %v, want io.ErrUnexpectedEOF: %v", name, err, short)
	}
}
