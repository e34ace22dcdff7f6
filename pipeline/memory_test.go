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

// mallocs returns the number of objects that f allocates.
func mallocs(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.Mallocs - before.Mallocs)
}

// TestSteadyState: however long the stream, no more memory is taken. Runs of different length may differ by a few
// objects of the runtime, not by one a block.
func TestSteadyState(t *testing.T) {
	const short, long = 50, 550
	data := pages(64 << 10)
	for _, name := range codec.Names() {
		t.Run(name, func(t *testing.T) {
			packing := func(blocks int) int {
				return mallocs(func() {
					_, err := pipeline.Pack(t.Context(), discard{}, &repeat{p: data, n: blocks * len(data)}, pipeline.PackOptions{
						Codec: lookup(t, name), Jobs: 2, BlockSize: len(data)})
					if err != nil {
						t.Error(err)
					}
				})
			}
			packing(short) // fills the caches of the codec
			if more := packing(long) - packing(short); more > (long-short)/10 {
				t.Errorf("Pack: %d blocks more took %d objects more, want none", long-short, more)
			}
			p := pack(t, data, pipeline.PackOptions{Codec: lookup(t, name), BlockSize: len(data)})
			volume, err := p.reader(1)
			if err != nil {
				t.Fatal(err)
			}
			unpacking := func(blocks int) int {
				o := p.options()
				o.Blocks = slices.Values(slices.Repeat(p.blocks, blocks))
				o.Volume = func(int) (io.ReaderAt, error) { return volume, nil }
				return mallocs(func() {
					if err := pipeline.Unpack(t.Context(), o, func(r *pipeline.Raw) error { r.Release(); return nil }); err != nil {
						t.Error(err)
					}
				})
			}
			unpacking(short)
			if more := unpacking(long) - unpacking(short); more > (long-short)/10 {
				t.Errorf("Unpack: %d blocks more took %d objects more, want none", long-short, more)
			}
		})
	}
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
