package codec

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// ErrCorrupt is matched by every error about bytes that are not, or not wholly, a valid encoding. Input that only
// stops too early matches io.ErrUnexpectedEOF as well.
var ErrCorrupt = errors.New("corrupt data")

// errClosed answers calls after Close.
var errClosed = errors.New("used after Close")

// CompressorOptions say how blocks are compressed. The zero value is level auto.
type CompressorOptions struct {
	Level     int // 0: the codec's own choice, as ParseLevel("auto")
	BlockSize int // bytes of the usual block, a hint to choose buffers by; 0: unknown

	// Params, if not nil, replaces what Level stands for. Only zstd has parameters.
	Params *Params
}

// Compressor turns blocks into frames. It belongs to one goroutine at a time and holds memory, some of it outside of
// the Go heap, until Close.
type Compressor interface {
	// Append compresses src into one independent frame, its checksum on, and appends it to dst. src and dst must
	// not overlap; neither is kept. With room for [Codec.Bound] bytes in dst nothing grows. After an error the
	// Compressor may be used for the next block; what was appended then is undefined.
	Append(dst, src []byte) ([]byte, error)
	// Close frees the memory. It may be called again.
	Close() error
}

// Decompressor turns frames back into blocks. It belongs to one goroutine at a time and holds memory, some of it
// outside of the Go heap, until Close.
type Decompressor interface {
	// Append decodes src, which has to be exactly one frame of exactly size bytes of data, and appends them to dst.
	// A frame that declares or decodes to more or less, that has no checksum, that is cut short or followed by
	// anything is refused with an error that matches [ErrCorrupt], and the returned slice is dst as it was. A size
	// that src is too short to hold is refused before memory for it is allocated.
	Append(dst, src []byte, size int) ([]byte, error)
	// Close frees the memory. It may be called again.
	Close() error
}

// blockCompressor is what each format implements: compress appends one frame; dst has the room of the codec's bound.
type blockCompressor interface {
	compress(dst, src []byte) ([]byte, error)
	close()
}

// blockDecompressor is what each format implements. check looks at the frame without decoding: it returns an error
// unless src has the outline of exactly one frame that can hold size bytes. decompress then fills dst, whose length is
// that size.
type blockDecompressor interface {
	check(src []byte, size int) error
	decompress(dst, src []byte) error
	close()
}

// NewCompressor returns a compressor of blocks. Close it.
func (c *Codec) NewCompressor(o CompressorOptions) (Compressor, error) {
	if o.Level == 0 {
		o.Level = c.auto
	}
	if err := c.checkLevel(o.Level); err != nil {
		return nil, err
	}
	if o.Params != nil && c.name != "zstd" {
		return nil, fmt.Errorf("codec %s has no parameters", c.name)
	}
	b, err := c.newCompress(o)
	if err != nil {
		return nil, fmt.Errorf("new %s compressor: %w", c.name, err)
	}
	return &compressor{codec: c, block: b}, nil
}

// NewDecompressor returns a decompressor of blocks. Close it.
func (c *Codec) NewDecompressor() (Decompressor, error) {
	b, err := c.newDecompress()
	if err != nil {
		return nil, fmt.Errorf("new %s decompressor: %w", c.name, err)
	}
	return &decompressor{codec: c, block: b}, nil
}

// compressor is the policy around a blockCompressor, which is nil after Close.
type compressor struct {
	codec *Codec
	block blockCompressor
}

func (c *compressor) Append(dst, src []byte) ([]byte, error) {
	if c.block == nil {
		return dst, fmt.Errorf("%s compressor: %w", c.codec.name, errClosed)
	}
	out, err := c.block.compress(slices.Grow(dst, c.codec.bound(len(src))), src)
	if err != nil {
		return dst, fmt.Errorf("compress %s block of %d bytes: %w", c.codec.name, len(src), err)
	}
	return out, nil
}

func (c *compressor) Close() error {
	if c.block != nil {
		c.block.close()
		c.block = nil
	}
	return nil
}

// decompressor is the policy around a blockDecompressor, which is nil after Close.
type decompressor struct {
	codec *Codec
	block blockDecompressor
}

func (d *decompressor) Append(dst, src []byte, size int) ([]byte, error) {
	if d.block == nil {
		return dst, fmt.Errorf("%s decompressor: %w", d.codec.name, errClosed)
	}
	out, err := d.append(dst, src, size)
	if err != nil {
		return dst, fmt.Errorf("decompress %s block of %d bytes: %w", d.codec.name, len(src), err)
	}
	return out, nil
}

func (d *decompressor) append(dst, src []byte, size int) ([]byte, error) {
	if size < 0 {
		return nil, fmt.Errorf("negative size %d", size)
	}
	if err := d.block.check(src, size); err != nil {
		return nil, err
	}
	out := slices.Grow(dst, size)[:len(dst)+size]
	return out, d.block.decompress(out[len(dst):], src)
}

func (d *decompressor) Close() error {
	if d.block != nil {
		d.block.close()
		d.block = nil
	}
	return nil
}

// corrupt is an error that matches ErrCorrupt.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}

// short is the error for data that stops inside of what.
func short(what string) error {
	return corrupt("cut short in the %s: %w", what, io.ErrUnexpectedEOF)
}

// wrongSize is the error for a frame whose data is not of the size it should be.
func wrongSize(got uint64, want int) error {
	return corrupt("frame holds %d bytes, want %d", got, want)
}

// tooSmall is the error for a frame that can't hold the size it should.
func tooSmall(most uint64, want int) error {
	return corrupt("frame holds at most %d bytes, want %d", most, want)
}

// appender is an io.Writer that appends to a slice. It never fails.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}
