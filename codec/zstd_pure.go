package codec

import (
	"io"

	"github.com/klauspost/compress/zstd"
)

// The pure Go implementation. Builds with cgo leave it out; there, tests hold it against libzstd.

// pureEmpty is the frame of an empty block: the library would write it without a checksum.
const pureEmpty = "\x28\xB5\x2F\xFD\x24\x00\x01\x00\x00\x99\xE9\xD8\x51"

// pureCompressor compresses on the goroutine of its caller.
type pureCompressor struct{ enc *zstd.Encoder }

func newPureCompressor(o CompressorOptions) (blockCompressor, error) {
	level := zstdParams(o).Level
	if level == 0 {
		level = 3
	}
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(true),
		// As libzstd does: no window size, which nothing but its own plausibility would protect.
		zstd.WithSingleSegment(true),
		// Digits give few matches: without this, whole blocks of them are stored as they are.
		zstd.WithAllLitEntropyCompression(true),
	)
	if err != nil {
		return nil, err
	}
	return &pureCompressor{enc}, nil
}

func (z *pureCompressor) compress(dst, src []byte) ([]byte, error) {
	if len(src) == 0 {
		return append(dst, pureEmpty...), nil
	}
	return z.enc.EncodeAll(src, dst), nil
}

func (z *pureCompressor) close() { z.enc.Close() }

// pureDecompressor decodes on the goroutine of its caller.
type pureDecompressor struct{ dec *zstd.Decoder }

func newPureDecompressor() (blockDecompressor, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	return &pureDecompressor{dec}, nil
}

func (z *pureDecompressor) check(src []byte, size int) error { return checkZstd(src, size) }

func (z *pureDecompressor) decompress(dst, src []byte) error {
	out, err := z.dec.DecodeAll(src, dst[:0:len(dst)])
	if err != nil {
		return corrupt("%w", err)
	}
	if len(out) != len(dst) {
		return wrongSize(uint64(len(out)), len(dst))
	}
	return nil
}

func (z *pureDecompressor) close() { z.dec.Close() }

func newPureReader(r io.Reader) (io.ReadCloser, error) {
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
