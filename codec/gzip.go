package codec

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/gzip"
)

// Facts of gzip (RFC 1952) and deflate (RFC 1951).
const (
	gzipHeader   = 10
	gzipTrailer  = 8
	gzipNoOS     = 255
	deflateRatio = 1032 // 258 bytes from two bits: no stream decodes to more
)

var gzipMagics = []magic{{want: []byte{0x1F, 0x8B, 0x08}}}

func gzipLibrary() string { return moduleVersion("github.com/klauspost/compress") }

// gzipBound: deflate stores what it can't compress in pieces of at least 16 KiB with 5 bytes each.
func gzipBound(n int) int { return n + 5*(n/(16<<10)+2) + gzipHeader + gzipTrailer }

// gzipCompressor has a writer for blocks that are mostly digits, one for others, one for others in which much repeats, and
// one that codes bytes and looks for no matches. Each is made when first needed.
type gzipCompressor struct {
	out                           appender
	level                         int
	digits, other, dense, huffman *gzip.Writer
	spare                         []byte // a second try, or a sample
}

func newGzipCompressor(o CompressorOptions) (blockCompressor, error) {
	return &gzipCompressor{level: o.Level}, nil
}

// compress tries twice where the library is at its worst: its fast methods store 64 KiB without a match as they are,
// even if these are nothing but digits or letters.
func (g *gzipCompressor) compress(dst, src []byte) ([]byte, error) {
	levels := gzipLevels[g.level-1]
	w, level, poor := &g.other, levels.other, len(src)-len(src)/8
	if mostlyDigits(src) {
		w, level, poor = &g.digits, levels.digits, len(src)/2
	} else if levels.dense != levels.other {
		repeats, err := g.repeats(src, levels.other)
		if err != nil {
			return dst, err
		}
		if repeats {
			w, level = &g.dense, levels.dense
		}
	}
	out, err := g.pass(w, level, dst, src)
	if err != nil || len(out)-len(dst) <= poor {
		return out, err
	}
	g.spare, err = g.pass(&g.huffman, gzip.HuffmanOnly, g.spare[:0], src)
	if err != nil || len(g.spare) >= len(out)-len(dst) {
		return out, err
	}
	return append(dst, g.spare...), nil
}

// Much repeats in a block when a sample of it, in bytes, shrinks to this part.
const (
	gzipSample = 64 << 10
	gzipDense  = 0.26
)

// repeats compresses a sample out of the middle of src to find out whether much repeats in it.
func (g *gzipCompressor) repeats(src []byte, level int) (bool, error) {
	sample := src[max(0, (len(src)-gzipSample)/2):]
	sample = sample[:min(len(sample), gzipSample)]
	var err error
	g.spare, err = g.pass(&g.other, level, g.spare[:0], sample)
	return float64(len(g.spare)) < gzipDense*float64(len(sample)), err
}

// pass appends src as one member, by the writer at w, which it makes if there is none yet.
func (g *gzipCompressor) pass(w **gzip.Writer, level int, dst, src []byte) (_ []byte, err error) {
	if *w == nil {
		if *w, err = gzip.NewWriterLevel(nil, level); err != nil {
			return dst, err
		}
	}
	g.out.b = dst
	defer func() { g.out.b = nil }()
	(*w).Reset(&g.out)
	if _, err := (*w).Write(src); err != nil {
		return dst, err
	}
	if err := (*w).Close(); err != nil {
		return dst, err
	}
	return g.out.b, nil
}

func (g *gzipCompressor) close() {
	g.digits, g.other, g.dense, g.huffman, g.spare = nil, nil, nil, nil, nil
}

// mostlyDigits tells whether at least two thirds of the bytes are digits or the dashes between them, as in the tables
// of sysbench. Zeros, of which pages that are not full have many, do not count. It looks at one byte in a hundred.
func mostlyDigits(src []byte) bool {
	const stride, run = 801, 8 // odd, so as not to fall into step with rows
	digits, others := 0, 0
	for at := 0; at < len(src); at += stride {
		for _, c := range src[at:min(at+run, len(src))] {
			switch {
			case c >= '0' && c <= '9' || c == '-':
				digits++
			case c != 0:
				others++
			}
		}
	}
	return digits > 2*others
}

type gzipDecompressor struct {
	in bytes.Reader
	r  gzip.Reader
}

func newGzipDecompressor() (blockDecompressor, error) { return new(gzipDecompressor), nil }

// check takes only a header as compressors of this package write it: nothing in gzip protects those ten bytes.
func (g *gzipDecompressor) check(src []byte, size int) error {
	if len(src) < gzipHeader+gzipTrailer {
		return short("member")
	}
	h := src[:gzipHeader]
	if h[0] != 0x1F || h[1] != 0x8B || h[2] != 8 {
		return corrupt("unexpected magic %#x", h[:3])
	}
	flags, time, extra, system := h[3], binary.LittleEndian.Uint32(h[4:]), h[8], h[9]
	if flags != 0 || time != 0 || extra&^6 != 0 || extra == 6 || system != gzipNoOS {
		return corrupt("member header %#x is not a block's", h)
	}
	if got := binary.LittleEndian.Uint32(src[len(src)-4:]); got != uint32(size) {
		return wrongSize(uint64(got), size)
	}
	if most := uint64(len(src)) * deflateRatio; most < uint64(size) {
		return tooSmall(most, size)
	}
	return nil
}

func (g *gzipDecompressor) decompress(dst, src []byte) error {
	g.in.Reset(src)
	defer g.in.Reset(nil)
	if err := g.r.Reset(&g.in); err != nil {
		return corrupt("%w", err)
	}
	g.r.Multistream(false)
	if n, err := io.ReadFull(&g.r, dst); err == io.EOF || err == io.ErrUnexpectedEOF && g.in.Len() == 0 {
		return wrongSize(uint64(n), len(dst))
	} else if err != nil {
		return corrupt("%w", err)
	}
	// The end of the member has to be next: reading it checks the CRC.
	var extra [1]byte
	if n, err := io.ReadFull(&g.r, extra[:]); n > 0 {
		return corrupt("member holds more than %d bytes", len(dst))
	} else if err != io.EOF {
		return corrupt("%w", err)
	}
	if g.in.Len() > 0 {
		return corrupt("%d bytes follow the member", g.in.Len())
	}
	return nil
}

func (g *gzipDecompressor) close() { g.r = gzip.Reader{} }

// gzipReader reads the first header with the first Read, so that a new reader does no I/O.
type gzipReader struct {
	src io.Reader
	r   *gzip.Reader
}

func newGzipReader(r io.Reader) (io.ReadCloser, error) { return &gzipReader{src: r}, nil }

func (g *gzipReader) Read(p []byte) (int, error) {
	if g.r == nil {
		r, err := gzip.NewReader(g.src)
		if err != nil {
			return 0, err
		}
		g.r = r
	}
	return g.r.Read(p)
}

func (g *gzipReader) Close() error { return nil }
