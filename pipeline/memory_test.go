package pipeline_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/pipeline"
)

// discard is volumes that keep nothing.
type discard struct{ io.Writer }

func (discard) Open(int) (pipeline.Volume, error) { return discard{io.Discard}, nil }
func (discard) Close() error                      { return nil }
func (discard) Abort() error                      { return nil }

// repeat reads p over and over, n bytes in all.
type repeat struct {
	p  []byte
	n  int
	at int
}

func (r *repeat) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.n)], r.p[r.at:])
	r.n, r.at = r.n-n, (r.at+n)%len(r.p)
	return n, nil
}

// usage is what a run allocates.
type usage struct{ objects, bytes int }

// measure returns what f allocates.
func measure(f func()) usage {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return usage{int(after.Mallocs - before.Mallocs), int(after.TotalAlloc - before.TotalAlloc)}
}

// checkSteady runs a job of a few and of many blocks. The many may take a few objects of the runtime more, and, where
// the codec's library allocates, small ones for each block; never a buffer.
func checkSteady(t *testing.T, codecName string, run func(blocks int)) {
	t.Helper()
	const few, many = 20, 220
	run(few) // fills the caches of the codec's library
	short, long := measure(func() { run(few) }), measure(func() { run(many) })
	objects, size := (many-few)/10, (8<<10)*(many-few) // of 64 KiB blocks
	if codecName == "gzip" || codecName == "lz4" {
		objects = 3 * (many - few)
	}
	if got := long.objects - short.objects; got > objects {
		t.Errorf("%d blocks more took %d objects more, want at most %d", many-few, got, objects)
	}
	if got := long.bytes - short.bytes; got > size {
		t.Errorf("%d blocks more took %d bytes more, want at most %d", many-few, got, size)
	}
}

// TestSteadyState: however long the stream, no more memory is taken.
func TestSteadyState(t *testing.T) {
	if raceDetector {
		t.Skip("sync.Pool drops things at random under the race detector")
	}
	data := pages(64 << 10)
	for _, name := range codec.Names() {
		t.Run("pack/"+name, func(t *testing.T) {
			checkSteady(t, name, func(blocks int) {
				_, err := pipeline.Pack(t.Context(), discard{}, &repeat{p: data, n: blocks * len(data)}, pipeline.PackOptions{
					Codec: lookup(t, name), Jobs: 2, BlockSize: len(data)})
				if err != nil {
					t.Error(err)
				}
			})
		})
		t.Run("unpack/"+name, func(t *testing.T) {
			p := pack(t, data, pipeline.PackOptions{Codec: lookup(t, name), BlockSize: len(data)})
			volume, err := p.reader(1)
			if err != nil {
				t.Fatal(err)
			}
			checkSteady(t, name, func(blocks int) {
				o := p.options()
				o.Blocks = slices.Values(slices.Repeat(p.blocks, blocks))
				o.Volume = func(int) (io.ReaderAt, error) { return volume, nil }
				if err := pipeline.Unpack(t.Context(), o, func(r *pipeline.Raw) error { r.Release(); return nil }); err != nil {
					t.Error(err)
				}
			})
		})
	}
	t.Run("feed", func(t *testing.T) {
		checkSteady(t, "none", func(blocks int) {
			err := pipeline.Feed(t.Context(), &repeat{p: data, n: blocks * len(data)}, pipeline.FeedOptions{BlockSize: len(data)},
				func(r *pipeline.Raw) error { r.Release(); return nil })
			if err != nil {
				t.Error(err)
			}
		})
	})
}

// pages returns n bytes like an InnoDB table's: 16 KiB pages of rows with an ascending key, random digits in groups and
// a padding of repeated text.
func pages(n int) []byte {
	const page = 16 << 10
	random := rand.New(rand.NewPCG(uint64(n), 11))
	var p []byte
	for number := uint32(0); len(p) < n; number++ {
		end := len(p) + page
		p = binary.BigEndian.AppendUint32(p, random.Uint32())
		p = binary.BigEndian.AppendUint32(p, number)
		p = append(p, make([]byte, 30)...)
		for row := uint32(0); len(p) < end-200; row++ {
			p = append(p, 0x80, 0, 0)
			p = binary.BigEndian.AppendUint32(p, number*80+row)
			for range 10 {
				for range 11 {
					p = append(p, byte('0'+random.IntN(10)))
				}
				p = append(p, '-')
			}
			p = append(p, "          qwertyuiop infimum supremum"...)
		}
		p = append(p, make([]byte, end-len(p))...)
	}
	return p[:n]
}

// BenchmarkPack packs 64 MiB of such pages on all cores; the volumes are thrown away.
func BenchmarkPack(b *testing.B) {
	data := pages(64 << 20)
	for _, bench := range []struct {
		codec string
		level int
	}{{"none", 0}, {"zstd", 1}} {
		b.Run(bench.codec, func(b *testing.B) {
			c := lookup(b, bench.codec)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			var stored int64
			for b.Loop() {
				result, err := pipeline.Pack(b.Context(), discard{}, bytes.NewReader(data), pipeline.PackOptions{Codec: c, Level: bench.level})
				if err != nil || result.RawSize != int64(len(data)) {
					b.Fatalf("got %d bytes (%v), want %d", result.RawSize, err, len(data))
				}
				stored = result.StoredSize
			}
			b.ReportMetric(float64(len(data))/float64(stored), "ratio")
		})
	}
}

// BenchmarkUnpack decodes what BenchmarkPack makes.
func BenchmarkUnpack(b *testing.B) {
	data := pages(64 << 20)
	for _, name := range []string{"none", "zstd"} {
		b.Run(name, func(b *testing.B) {
			p := pack(b, data, pipeline.PackOptions{Codec: lookup(b, name), BlockSize: 1 << 20})
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				err := pipeline.Unpack(b.Context(), p.options(), func(r *pipeline.Raw) error {
					n += len(r.Data)
					r.Release()
					return nil
				})
				if err != nil || n != len(data) {
					b.Fatalf("got %d bytes (%v), want %d", n, err, len(data))
				}
			}
		})
	}
}
