package codec

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"

	"github.com/pierrec/lz4/v4"
)

func lz4Library() string { return moduleVersion("github.com/pierrec/lz4/v4") }

// lz4Bound: header, end mark and checksum are 23 bytes; each block has 4, and no block is smaller than 64 KiB but the
// last.
func lz4Bound(n int) int { return n + 4*(n/lz4MinBlock+1) + 23 }

// lz4BlockSize is the block size for blocks of ours of n bytes. Matches reach back only 64 KiB, so large blocks gain
// little, while the library holds two buffers of that size; what fills a block whole is not copied.
func lz4BlockSize(n int) lz4.BlockSize {
	if n >= 1<<20 || n <= 0 {
		return lz4.Block1Mb
	}
	if n >= 256<<10 {
		return lz4.Block256Kb
	}
	return lz4.Block64Kb
}

type lz4Compressor struct {
	out appender
	w   *lz4.Writer
}

func newLZ4Compressor(o CompressorOptions) (blockCompressor, error) {
	w := lz4.NewWriter(nil)
	err := w.Apply(
		lz4.BlockSizeOption(lz4BlockSize(o.BlockSize)),
		lz4.CompressionLevelOption(lz4Levels[o.Level-1]),
		lz4.ChecksumOption(true),
		lz4.ConcurrencyOption(1),
	)
	if err != nil {
		return nil, err
	}
	return &lz4Compressor{w: w}, nil
}

func (l *lz4Compressor) compress(dst, src []byte) ([]byte, error) {
	l.out.b = dst
	defer func() { l.out.b = nil }()
	l.w.Reset(&l.out)
	if err := l.w.Apply(lz4.SizeOption(uint64(len(src)))); err != nil {
		return dst, err
	}
	if _, err := l.w.Write(src); err != nil {
		return dst, err
	}
	if err := l.w.Close(); err != nil {
		return dst, err
	}
	return l.out.b, nil
}

func (l *lz4Compressor) close() {
	l.w.Reset(nil)
	l.w = nil
}

type lz4Decompressor struct {
	in bytes.Reader
	r  *lz4.Reader
}

func newLZ4Decompressor() (blockDecompressor, error) {
	return &lz4Decompressor{r: lz4.NewReader(nil)}, nil
}

func (l *lz4Decompressor) check(src []byte, size int) error { return checkLZ4(src, size) }

func (l *lz4Decompressor) decompress(dst, src []byte) error {
	l.in.Reset(src)
	l.r.Reset(&l.in)
	defer l.in.Reset(nil)
	if n, err := io.ReadFull(l.r, dst); err == io.EOF || err == io.ErrUnexpectedEOF && l.in.Len() == 0 {
		return wrongSize(uint64(n), len(dst))
	} else if err != nil {
		return corrupt("%w", err)
	}
	// The end of the frame has to be next: reading it checks the checksum.
	var extra [1]byte
	if n, err := io.ReadFull(l.r, extra[:]); n > 0 {
		return corrupt("frame holds more than %d bytes", len(dst))
	} else if err != io.EOF {
		return corrupt("%w", err)
	}
	return nil
}

func (l *lz4Decompressor) close() {
	l.r.Reset(nil)
	l.r = nil
}

// lz4Reader refuses the legacy format, which has no checksum and no end.
type lz4Reader struct {
	in *bufio.Reader // the library reads four bytes at a time
	r  *lz4.Reader   // nil before the first Read
}

func newLZ4Reader(r io.Reader) (io.ReadCloser, error) { return &lz4Reader{in: bufio.NewReader(r)}, nil }

func (l *lz4Reader) Read(p []byte) (int, error) {
	if l.r == nil {
		if head, _ := l.in.Peek(4); len(head) == 4 && binary.LittleEndian.Uint32(head) == lz4LegacyMagic {
			return 0, corrupt("the legacy LZ4 format has no checksums")
		}
		l.r = lz4.NewReader(l.in)
	}
	return l.r.Read(p)
}

func (l *lz4Reader) Close() error {
	if l.r != nil {
		l.r.Reset(nil) // gives the buffers back
	}
	return nil
}
