package codec

import (
	"bytes"
	"fmt"
	"testing"
)

// benchLevels are the levels worth a look, by codec.
var benchLevels = map[string][]int{"zstd": {1, 3, 6}, "gzip": {1, 5, 6, 9}, "lz4": {1, 2, 3, 9}, "none": {0}}

// BenchmarkCompress packs blocks of 2 MiB of made-up rows on one core and reports raw bytes per stored byte.
func BenchmarkCompress(b *testing.B) {
	eachBench(b, func(b *testing.B, c *Codec, level int, data []byte) {
		enc := newCompressor(b, c, CompressorOptions{Level: level, BlockSize: len(data)})
		dst := make([]byte, 0, c.Bound(len(data)))
		for b.Loop() {
			dst = mustAppend(b, enc, dst[:0], data)
		}
		b.ReportMetric(float64(len(data))/float64(len(dst)), "ratio")
	})
}

// BenchmarkDecompress unpacks the same blocks.
func BenchmarkDecompress(b *testing.B) {
	eachBench(b, func(b *testing.B, c *Codec, level int, data []byte) {
		frame, dec := compress(b, c, level, data), newDecompressor(b, c)
		dst := make([]byte, 0, len(data))
		for b.Loop() {
			out, err := dec.Append(dst, frame, len(data))
			if err != nil || !bytes.Equal(out[:100], data[:100]) {
				b.Fatal(len(out), err)
			}
		}
	})
}

// eachBench runs a benchmark for each codec, level and kind of rows; speed is that of the raw bytes.
func eachBench(b *testing.B, bench func(b *testing.B, c *Codec, level int, data []byte)) {
	for _, name := range Names() {
		for _, kind := range kinds[:2] {
			data := kind.make(2 << 20)
			for _, level := range benchLevels[name] {
				b.Run(fmt.Sprintf("%s/%d/%s", name, level, kind.name), func(b *testing.B) {
					b.SetBytes(int64(len(data)))
					b.ReportAllocs()
					bench(b, lookup(b, name), level, data)
				})
			}
		}
	}
}
