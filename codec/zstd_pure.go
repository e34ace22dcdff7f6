//go:build !cgo

package codec

import (
	"io"

	"github.com/klauspost/compress/zstd"
)

func zstdLibrary() string { return moduleVersion("github.com/klauspost/compress") }

// zstdCompressor compresses on the goroutine of its caller.
type zstdCompressor struct{ enc *zstd.Encoder }

func newZstdCompressor(o CompressorOptions) (blockCompressor, error) {
	level := zstdParams(o).Level
	if level == 0 {
		level = 3
	}
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(true),
		zstd.WithZeroFrames(true),
		// Digits give few matches: without this, whole blocks of them are stored as they are.
		zstd.WithAllLitEntropyCompression(true),
	)
	if err != nil {
		return nil, err
	}
	return &zstdCompressor{enc}, nil
}

func (z *zstdCompressor) compress(dst, src []byte) ([]byte, error) {
	return z.enc.EncodeAll(src, dst), nil
}

func (z *zstdCompressor) close() { z.enc.Close() }

// zstdDecompressor decodes on the goroutine of its caller.
type zstdDecompressor struct{ dec *zstd.Decoder }

func newZstdDecompressor() (blockDecompressor, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	return &zstdDecompressor{dec}, nil
}

func (z *zstdDecompressor) check(src []byte, size int) error { return checkZstd(src, size) }

func (z *zstdDecompressor) decompress(dst, src []byte) error {
	out, err := z.dec.DecodeAll(src, dst[:0:len(dst)])
	if err != nil {
		return corrupt("%w", err)
	}
	if len(out) != len(dst) {
		return wrongSize(uint64(len(out)), len(dst))
	}
	return nil
}

func (z *zstdDecompressor) close() { z.dec.Close() }

func newZstdReader(r io.Reader) (io.ReadCloser, error) {
	dec, err := zstd.NewReader(r,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdMaxWindow),
	)
	if err != nil {
		return nil, err
	}
	return dec.IOReadCloser(), nil
}
