package xbstream

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// Lengths of the parts of a chunk head, in bytes.
const (
	fixedLen   = 14 // magic, flags, type, path length
	payloadLen = 20 // size, offset, CRC
	seekLen    = 8  // offset
	sparseLen  = 24 // entries, size, offset, CRC
	extentLen  = 8  // skip, length
)

// A head is a parsed chunk head. Its slices are views of the parsed bytes.
type head struct {
	typ     Type
	flags   byte
	ignored bool // unknown type with FlagIgnorable; typ is the byte on the wire
	path    []byte
	newPath []byte
	offset  int64
	size    int64
	crc     uint32
	extents []byte // the map of a sparse chunk as stored
	length  int    // of the head
}

// parse parses the head that begins at b[0]. If b is too short it returns how many bytes it needs to get further, which
// is more than len(b); else it returns the length of the head, which is at most len(b). final says that no more bytes will
// come. Paths are not judged.
func (h *head) parse(b []byte, final bool) (int, *Error) {
	if len(b) < fixedLen {
		if len(b) >= len(Magic) {
			return fixedLen, checkMagic(b)
		}
		return fixedLen, nil
	}
	if err := checkMagic(b); err != nil {
		return 0, err
	}
	n := binary.LittleEndian.Uint32(b[10:])
	if n == 0 || n > MaxPath {
		return 0, &Error{Kind: KindPath, Err: errPathLength}
	}
	end := fixedLen + int(n)
	if len(b) < end {
		return end, nil
	}
	*h = head{flags: b[8], typ: Type(b[9]), path: b[fixedLen:end]}
	if h.flags&^(FlagIgnorable|FlagRewrite) != 0 {
		return 0, fault(KindFlags, string(h.path), "unknown flags 0x%02x", h.flags)
	}
	n2, err := h.parseTail(b[end:], final)
	h.length = end + n2
	return h.length, err
}

func checkMagic(b []byte) *Error {
	if string(b[:len(Magic)]) != Magic {
		return fault(KindMagic, "", "unexpected magic %q", b[:len(Magic)])
	}
	return nil
}

// parseTail parses what follows the path. Its result is as that of parse, counted from b[0].
func (h *head) parseTail(b []byte, final bool) (int, *Error) {
	switch h.typ {
	case TypePayload:
		return h.parsePayload(b)
	case TypeEnd, TypeRemove:
		return 0, nil
	case TypeRename:
		return h.parseRename(b)
	case TypeSeek:
		return h.parseS(b, final)
	}
	if h.flags&FlagIgnorable == 0 {
		return 0, fault(KindType, string(h.path), "unknown chunk type 0x%02x", byte(h.typ))
	}
	h.ignored = true
	return h.parsePayload(b)
}

func (h *head) parsePayload(b []byte) (int, *Error) {
	if len(b) < payloadLen {
		return payloadLen, nil
	}
	h.crc = binary.LittleEndian.Uint32(b[16:])
	return payloadLen, h.setRange(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]))
}

// setRange sets size and offset after comparing them with the limit.
func (h *head) setRange(size, offset uint64) *Error {
	if size > uint64(MaxOffset) || offset > uint64(MaxOffset) || size+offset > uint64(MaxOffset) {
		return fault(KindLimit, string(h.path), "%d bytes at position %d are out of bounds", size, offset)
	}
	h.size, h.offset = int64(size), int64(offset)
	return nil
}

func (h *head) parseRename(b []byte) (int, *Error) {
	if len(b) < 4 {
		return 4, nil
	}
	n := binary.LittleEndian.Uint32(b)
	if n == 0 || n > MaxPath {
		return 0, &Error{Kind: KindPath, Path: string(h.path), Err: errors.New("the new path is too long or empty")}
	}
	end := 4 + int(n)
	if len(b) >= end {
		h.newPath = b[4:end]
	}
	return end, nil
}

// parseS parses the two forms of the wire type 'S'; see TypeSparse.
func (h *head) parseS(b []byte, final bool) (int, *Error) {
	switch {
	case final && len(b) == seekLen:
	case len(b) < seekLen+len(Magic):
		return seekLen + len(Magic), nil
	case string(b[seekLen:seekLen+len(Magic)]) != Magic:
		return h.parseSparse(b)
	}
	return seekLen, h.setRange(0, binary.LittleEndian.Uint64(b))
}

func (h *head) parseSparse(b []byte) (int, *Error) {
	h.typ = TypeSparse
	if len(b) < sparseLen {
		return sparseLen, nil
	}
	n := binary.LittleEndian.Uint32(b)
	if n > MaxExtents {
		return 0, fault(KindLimit, string(h.path), "sparse map of %d entries is out of bounds", n)
	}
	h.crc = binary.LittleEndian.Uint32(b[20:])
	if err := h.setRange(binary.LittleEndian.Uint64(b[4:]), binary.LittleEndian.Uint64(b[12:])); err != nil {
		return 0, err
	}
	end := sparseLen + int(n)*extentLen
	if len(b) < end {
		return end, nil
	}
	h.extents = b[sparseLen:end]
	return end, h.checkMap()
}

// checkMap checks that the lengths of the map add up to the payload and that the chunk ends within bounds. The sums
// cannot overflow: the map has at most MaxExtents entries of 32 bits.
func (h *head) checkMap() *Error {
	var skip, length int64
	for e := range h.eachExtent {
		skip += int64(e.Skip)
		length += int64(e.Len)
	}
	if length != h.size {
		return fault(KindSparse, string(h.path), "lengths in the sparse map add up to %d, the payload has %d bytes", length, h.size)
	}
	if h.offset+h.size > MaxOffset-skip {
		return fault(KindLimit, string(h.path), "%d bytes and %d of holes at position %d are out of bounds", h.size, skip, h.offset)
	}
	return nil
}

func (h *head) eachExtent(yield func(Extent) bool) {
	for m := h.extents; len(m) >= extentLen; m = m[extentLen:] {
		if !yield(Extent{Skip: binary.LittleEndian.Uint32(m), Len: binary.LittleEndian.Uint32(m[4:])}) {
			return
		}
	}
}

// append appends the wire form of a header to dst. The header must be legal.
func (h *Header) append(dst []byte) []byte {
	wire := h.Type
	if wire == TypeSparse {
		wire = TypeSeek
	}
	dst = append(dst, Magic...)
	dst = append(dst, h.Flags, byte(wire))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(h.Path)))
	dst = append(dst, h.Path...)
	switch h.Type {
	case TypeRename:
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(h.NewPath)))
		return append(dst, h.NewPath...)
	case TypeSeek:
		return binary.LittleEndian.AppendUint64(dst, uint64(h.Offset))
	case TypeEnd, TypeRemove:
		return dst
	case TypeSparse:
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(h.Extents)))
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.Size))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.Offset))
	dst = binary.LittleEndian.AppendUint32(dst, h.CRC)
	return appendMap(dst, h.Extents)
}

func appendMap(dst []byte, extents []Extent) []byte {
	for _, e := range extents {
		dst = binary.LittleEndian.AppendUint32(dst, e.Skip)
		dst = binary.LittleEndian.AppendUint32(dst, e.Len)
	}
	return dst
}

// magicPrefix reports whether b may be the beginning of a chunk.
func magicPrefix(b []byte) bool {
	n := min(len(b), len(Magic))
	return bytes.Equal(b[:n], []byte(Magic)[:n])
}
