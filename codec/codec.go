// Package codec compresses and decompresses blocks of a stream in formats that stock programs read: zstd, gzip, lz4,
// and none. Every block becomes one independent frame (a zstd frame, a gzip member, an LZ4 frame) with its checksum
// on, so that frames can be decoded apart and in parallel, and their concatenation is an ordinary .zst, .gz or .lz4
// file.
//
// All codecs stand in one table, reached by [Lookup] and [Detect]. A [Codec] makes compressors and decompressors for
// blocks, and sequential readers for whole files, its own or foreign.
//
// A codec is named by its format, not by the library behind it. With cgo, zstd is libzstd; without, it is a pure Go
// implementation. Each reads what the other wrote.
//
// The package starts no goroutine, prints nothing and reads no environment.
package codec

import (
	"fmt"
	"io"
	"strconv"
)

// DetectLen is the number of bytes from the start of a file that [Detect] wants to see.
const DetectLen = 8

// Codec is one row of the table of codecs. Its methods may be called concurrently.
type Codec struct {
	name, suffix   string
	low, high      int // range of levels; both 0: the codec has none
	auto           int // the level that "auto" stands for
	magics         []magic
	library        func() string
	bound          func(n int) int
	newCompress    func(CompressorOptions) (blockCompressor, error)
	newDecompress  func() (blockDecompressor, error)
	newReader      func(io.Reader) (io.ReadCloser, error)
	emptyIsNothing bool // an empty file is a valid encoding of nothing
}

// table holds every codec, best first. It is never written.
var table = []Codec{
	{
		name: "zstd", suffix: ".zst", low: 1, high: len(zstdLevels), auto: zstdAuto,
		magics: zstdMagics, library: zstdLibrary, bound: zstdBound,
		newCompress: newZstdCompressor, newDecompress: newZstdDecompressor, newReader: newZstdReader,
	},
	{
		name: "gzip", suffix: ".gz", low: 1, high: len(gzipLevels), auto: gzipAuto,
		magics: gzipMagics, library: gzipLibrary, bound: gzipBound,
		newCompress: newGzipCompressor, newDecompress: newGzipDecompressor, newReader: newGzipReader,
	},
	{
		name: "lz4", suffix: ".lz4", low: 1, high: len(lz4Levels), auto: lz4Auto,
		magics: lz4Magics, library: lz4Library, bound: lz4Bound,
		newCompress: newLZ4Compressor, newDecompress: newLZ4Decompressor, newReader: newLZ4Reader,
	},
	{
		name: "none", magics: noneMagics, library: noneLibrary, bound: noneBound,
		newCompress: newNoneCompressor, newDecompress: newNoneDecompressor, newReader: newNoneReader,
		emptyIsNothing: true,
	},
}

// Names returns the names of all codecs, best first.
func Names() []string {
	names := make([]string, len(table))
	for i := range table {
		names[i] = table[i].name
	}
	return names
}

// Lookup returns the codec of that name: "zstd", "gzip", "lz4" or "none".
func Lookup(name string) (*Codec, error) {
	for i := range table {
		if table[i].name == name {
			return &table[i], nil
		}
	}
	return nil, fmt.Errorf("unknown codec %q: want one of %q", name, Names())
}

// magic is a run of bytes that a file of a codec starts with: data has to equal want where mask has ones (a nil mask
// is all ones).
type magic struct{ want, mask []byte }

func (m magic) matches(data []byte) bool {
	if len(data) < len(m.want) {
		return false
	}
	for i, want := range m.want {
		if m.mask != nil && (data[i]^want)&m.mask[i] != 0 || m.mask == nil && data[i] != want {
			return false
		}
	}
	return true
}

// Detect tells by its first bytes which codec a file was written with; [DetectLen] bytes are enough. A plain xbstream
// is "none". It returns false for anything it does not know, an empty head included.
func Detect(head []byte) (*Codec, bool) {
	for i := range table {
		for _, m := range table[i].magics {
			if m.matches(head) {
				return &table[i], true
			}
		}
	}
	return nil, false
}

// Name returns the name of the format, as [Lookup] takes it. "none" is the identity: its frames are the data.
func (c *Codec) Name() string { return c.name }

// Suffix returns the ending of the names of such files, with its dot; "" for none.
func (c *Codec) Suffix() string { return c.suffix }

// Library names the implementation and, where known, its version, for the version command: "libzstd 1.5.7".
func (c *Codec) Library() string { return c.library() }

// Levels returns the lowest and the highest level; both are 0 if the codec has no levels.
func (c *Codec) Levels() (low, high int) { return c.low, c.high }

// Bound returns the size of the largest frame that a block of n bytes can become. A destination with that much room
// is never grown.
func (c *Codec) Bound(n int) int { return c.bound(n) }

// ParseLevel turns what a user wrote into a level: "auto" and "" are the codec's best fixed choice. A level outside of
// the codec's range is an error that names the range.
func (c *Codec) ParseLevel(s string) (int, error) {
	if s == "" || s == "auto" {
		return c.auto, nil
	}
	level, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("codec %s: level %q is neither a number nor auto", c.name, s)
	}
	if err := c.checkLevel(level); err != nil {
		return 0, err
	}
	return level, nil
}

func (c *Codec) checkLevel(level int) error {
	if c.high == 0 && level != 0 {
		return fmt.Errorf("codec %s has no levels: got %d", c.name, level)
	}
	if level < c.low || level > c.high {
		return fmt.Errorf("codec %s: level %d is outside of %d to %d", c.name, level, c.low, c.high)
	}
	return nil
}
