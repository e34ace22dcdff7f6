package codec

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"
)

// TestRoundTrip sends blocks around the boundaries of a block size through every level, by block and as one file.
func TestRoundTrip(t *testing.T) {
	const b = 64 << 10
	data := append(append(digitRows(b-777), businessRows(b)...), randomBytes(777+5)...)
	forEach(t, func(t *testing.T, c *Codec) {
		dec := newDecompressor(t, c)
		low, high := c.Levels()
		for level := low; level <= high; level++ {
			enc := newCompressor(t, c, CompressorOptions{Level: level, BlockSize: b})
			var file, whole []byte
			for _, size := range []int{0, 1, b - 1, b, b + 1, 2*b + 5} {
				block := data[:size]
				start := len(file)
				file = mustAppend(t, enc, file, block)
				if got := len(file) - start; got > c.Bound(size) {
					t.Errorf("level %d size %d: got frame of %d bytes, want at most %d", level, size, got, c.Bound(size))
				}
				prefix := []byte("kept")
				got, err := dec.Append(prefix, file[start:], size)
				if err != nil {
					t.Fatalf("level %d size %d: %v", level, size, err)
				}
				if whole = append(whole, block...); !bytes.Equal(got, append(prefix, block...)) {
					t.Fatalf("level %d size %d: decoded block differs", level, size)
				}
			}
			got, err := readAll(c, bytes.NewReader(file))
			if err != nil || !bytes.Equal(got, whole) {
				t.Fatalf("level %d: read %d bytes, %v, want %d and no error", level, len(got), err, len(whole))
			}
		}
	})
}

func mustAppend(t testing.TB, z Compressor, dst, src []byte) []byte {
	t.Helper()
	out, err := z.Append(dst, src)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// readAll reads a file to its end.
func readAll(c *Codec, r io.Reader) ([]byte, error) {
	dec, err := c.NewReader(r)
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	return io.ReadAll(dec)
}

// TestFrameIsAFunctionOfTheBlock: what a compressor did before leaves no trace.
func TestFrameIsAFunctionOfTheBlock(t *testing.T) {
	data := businessRows(200_000)
	forEach(t, func(t *testing.T, c *Codec) {
		enc := newCompressor(t, c, CompressorOptions{})
		want := mustAppend(t, enc, nil, data)
		mustAppend(t, enc, nil, digitRows(300_000))
		if got := mustAppend(t, enc, nil, data); !bytes.Equal(got, want) {
			t.Errorf("got another frame of %d bytes for the same block, want that of %d bytes", len(got), len(want))
		}
	})
}

// TestIncompressible: what can't be compressed grows by the frame and the heads of its blocks only.
func TestIncompressible(t *testing.T) {
	head := map[string]int{"zstd": 6 + 8 + 3 + 4, "gzip": 10 + 5 + 5 + 8, "lz4": 15 + 4 + 4 + 4, "none": 0}
	per64K := map[string]int{"zstd": 3, "gzip": 10, "lz4": 4, "none": 0}
	forEach(t, func(t *testing.T, c *Codec) {
		low, high := c.Levels()
		for _, level := range []int{low, (low + high) / 2, high} {
			for _, n := range []int{1, 100, 64 << 10, 128<<10 + 1, 1<<20 + 17} {
				most := n + head[c.Name()] + per64K[c.Name()]*(n>>16)
				if most > c.Bound(n) {
					t.Errorf("bound of %d bytes: got %d, want at least %d", n, c.Bound(n), most)
				}
				if got := len(compress(t, c, level, randomBytes(n))); got > most {
					t.Errorf("level %d: %d random bytes became %d, want at most %d", level, n, got, most)
				}
			}
		}
	})
}

// TestSizes: compressible data becomes smaller, and no level makes business rows much larger than the one before. On
// digits levels are not in order, in any of the libraries.
func TestSizes(t *testing.T) {
	data := businessRows(128 << 10)
	forEach(t, func(t *testing.T, c *Codec) {
		low, high := c.Levels()
		if high == 0 {
			t.Skip("none compresses nothing")
		}
		last := len(data) * 3 / 4
		for level := low; level <= high; level++ {
			got := len(compress(t, c, level, data))
			if got > last+last/20 {
				t.Errorf("level %d: got %d bytes, want at most 5 %% over %d", level, got, last)
			}
			last = got
		}
	})
}

// TestSteadyState: with room in the destination, a block costs no memory but for a few small objects of two libraries.
func TestSteadyState(t *testing.T) {
	data := businessRows(256 << 10)
	want := map[string]float64{"lz4": 4, "gzip": 1}
	forEach(t, func(t *testing.T, c *Codec) {
		enc, dec := newCompressor(t, c, CompressorOptions{BlockSize: len(data)}), newDecompressor(t, c)
		dst := make([]byte, 0, c.Bound(len(data)))
		frame := mustAppend(t, enc, nil, data)
		if got := testing.AllocsPerRun(5, func() { mustAppend(t, enc, dst, data) }); got > want[c.Name()] {
			t.Errorf("compress: got %v allocations, want at most %v", got, want[c.Name()])
		}
		back := make([]byte, 0, len(data))
		decode := func() {
			if _, err := dec.Append(back, frame, len(data)); err != nil {
				t.Fatal(err)
			}
		}
		if got := testing.AllocsPerRun(5, decode); got > want[c.Name()] {
			t.Errorf("decompress: got %v allocations, want at most %v", got, want[c.Name()])
		}
	})
}

// TestDestinationIsUsed: a frame lands in the room that the destination has.
func TestDestinationIsUsed(t *testing.T) {
	data := digitRows(100_000)
	forEach(t, func(t *testing.T, c *Codec) {
		dst := make([]byte, 3, 3+c.Bound(len(data)))
		out := mustAppend(t, newCompressor(t, c, CompressorOptions{}), dst, data)
		if &out[0] != &dst[0] {
			t.Error("compressor moved to another array")
		}
		back := make([]byte, 3, 3+len(data))
		got, err := newDecompressor(t, c).Append(back, out[3:], len(data))
		if err != nil || &got[0] != &back[0] {
			t.Errorf("decompressor moved to another array, or %v", err)
		}
	})
}

func TestClose(t *testing.T) {
	forEach(t, func(t *testing.T, c *Codec) {
		enc, dec := newCompressor(t, c, CompressorOptions{}), newDecompressor(t, c)
		frame := mustAppend(t, enc, nil, []byte("data"))
		r, err := c.NewReader(bytes.NewReader(frame))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		for _, z := range []io.Closer{enc, dec, r, enc, dec, r} {
			if err := z.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := enc.Append(nil, nil); err == nil {
			t.Error("closed compressor: got no error")
		}
		if _, err := dec.Append(nil, frame, 4); err == nil {
			t.Error("closed decompressor: got no error")
		}
		if _, err := r.Read(make([]byte, 1)); err == nil {
			t.Error("closed reader: got no error")
		}
	})
}

// TestManyAtOnce: each goroutine has its own compressor; the codec is shared.
func TestManyAtOnce(t *testing.T) {
	data := businessRows(100_000)
	forEach(t, func(t *testing.T, c *Codec) {
		var group sync.WaitGroup
		for worker := range 4 {
			group.Go(func() {
				if err := sendThrough(c, data[worker*1000:]); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	})
}

// sendThrough compresses and decompresses data a few times.
func sendThrough(c *Codec, data []byte) error {
	enc, err := c.NewCompressor(CompressorOptions{})
	if err != nil {
		return err
	}
	defer enc.Close()
	dec, err := c.NewDecompressor()
	if err != nil {
		return err
	}
	defer dec.Close()
	for range 3 {
		frame, err := enc.Append(nil, data)
		if err != nil {
			return err
		}
		if back, err := dec.Append(nil, frame, len(data)); err != nil || !bytes.Equal(back, data) {
			return fmt.Errorf("got %d bytes, %w, want the same %d", len(back), err, len(data))
		}
	}
	return nil
}
