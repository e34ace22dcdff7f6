package restore

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// Places in page 0 of an InnoDB tablespace: the flags, and their bits in the two formats.
const (
	flagsOffset = 54 // big-endian, 4 bytes
	flagsEnd    = flagsOffset + 4

	fullCRC32Bit     = 1 << 4  // tells the formats apart
	fullCRC32Algo    = 7 << 5  // full_crc32: the page compression algorithm, 0 for none
	oldCompressedBit = 1 << 16 // older format: page_compressed
)

// holeSize is the unit in which holes are left, in bytes: the server punches holes in units of the file system's block,
// which is this or larger.
const holeSize = 4 << 10

// holes decides whether zeroes of a file are left out. Pages of a page-compressed tablespace are mostly zeroes which on
// the server's disk are holes; the stream has them in full.
type holes struct {
	possible bool // the name is that of a tablespace and its flags are not known yet
	wanted   bool

	head [flagsEnd]byte // the first bytes of the file, as far as they are known
	have int
}

// mayBeCompressed tells by its name whether a file is a whole tablespace.
func mayBeCompressed(name string) bool {
	return strings.HasSuffix(name, ".ibd") || strings.HasSuffix(name, ".new")
}

// see looks for the flags in a piece that is about to be written.
func (h *holes) see(offset int64, data []byte) {
	if !h.possible || len(data) == 0 {
		return
	}
	if offset != int64(h.have) {
		h.possible = false // the beginning did not come in order: it is no ordinary tablespace
		return
	}
	h.have += copy(h.head[h.have:], data)
	if h.have == len(h.head) {
		h.possible = false
		h.wanted = pageCompressed(binary.BigEndian.Uint32(h.head[flagsOffset:]))
	}
}

// pageCompressed tells whether the flags of a tablespace say so.
func pageCompressed(flags uint32) bool {
	if flags&fullCRC32Bit != 0 {
		return flags&fullCRC32Algo != 0
	}
	return flags&oldCompressedBit != 0
}

// eachSolid calls put for the parts of data, which begins at offset of a file, that are not blocks of zeroes.
func eachSolid(data []byte, offset int64, put func(piece []byte, at int64) error) error {
	start := 0 // of the part that is to be written next
	next := int(-offset & (holeSize - 1))
	for ; next+holeSize <= len(data); next += holeSize {
		if !isZero(data[next : next+holeSize]) {
			continue
		}
		if start < next {
			if err := put(data[start:next], offset+int64(start)); err != nil {
				return err
			}
		}
		start = next + holeSize
	}
	if start < len(data) {
		return put(data[start:], offset+int64(start))
	}
	return nil
}

// zeroes is what a hole reads as. It is never written.
var zeroes = make([]byte, holeSize)

// isZero tells whether a block of holeSize bytes is all zero.
func isZero(p []byte) bool { return p[0] == 0 && bytes.Equal(p, zeroes) }
