package codec

import "encoding/binary"

// Facts of the zstd frame format, RFC 8878 section 3.1.1.
const (
	zstdMagic      = 0xFD2FB528
	zstdSkipMagic  = 0x184D2A50 // the low four bits are free
	zstdMaxBlock   = 128 << 10  // no block decodes to more
	zstdUnknown    = -1
	zstdBlockRaw   = 0
	zstdBlockRLE   = 1
	zstdBlockCoded = 2
)

// zstdMagics: pzstd starts its files with a skippable frame. LZ4 shares those, but no program starts an LZ4 file so.
var zstdMagics = []magic{
	{want: []byte{0x28, 0xB5, 0x2F, 0xFD}},
	{want: []byte{0x50, 0x2A, 0x4D, 0x18}, mask: []byte{0xF0, 0xFF, 0xFF, 0xFF}},
}

// zstdFrame is the outline of a frame, found without decoding.
type zstdFrame struct {
	content int64  // declared size of the data, or zstdUnknown
	most    uint64 // no more data than that can come out
}

// checkZstd accepts src only if it is exactly one checksummed frame, without dictionary, that can hold size bytes.
func checkZstd(src []byte, size int) error {
	frame, rest, err := parseZstdHeader(src)
	if err != nil {
		return err
	}
	if frame.content != zstdUnknown && frame.content != int64(size) {
		return wrongSize(uint64(frame.content), size)
	}
	if rest, err = frame.skipBlocks(rest); err != nil {
		return err
	}
	if len(rest) < 4 {
		return short("checksum")
	}
	if len(rest) > 4 {
		return corrupt("%d bytes follow the frame", len(rest)-4)
	}
	if frame.most < uint64(size) {
		return tooSmall(frame.most, size)
	}
	return nil
}

// parseZstdHeader reads a frame's header and returns what follows it.
func parseZstdHeader(src []byte) (frame zstdFrame, rest []byte, err error) {
	if len(src) < 5 {
		return frame, nil, short("frame header")
	}
	if m := binary.LittleEndian.Uint32(src); m != zstdMagic {
		return frame, nil, corrupt("unexpected magic %#08x", m)
	}
	flags := src[4]
	switch {
	case flags&0x18 != 0:
		return frame, nil, corrupt("reserved bits set in frame header %#02x", flags)
	case flags&0x04 == 0:
		return frame, nil, corrupt("frame has no checksum")
	case flags&0x03 != 0:
		return frame, nil, corrupt("frame needs a dictionary")
	}
	single := flags&0x20 != 0
	rest = src[5:]
	if !single {
		if len(rest) == 0 {
			return frame, nil, short("frame header")
		}
		rest = rest[1:] // window descriptor
	}
	frame.content, rest, err = zstdContentSize(rest, flags>>6, single)
	return frame, rest, err
}

// zstdContentSize reads the frame content size field of the kind that the header's top bits tell.
func zstdContentSize(src []byte, kind byte, single bool) (size int64, rest []byte, err error) {
	width := [4]int{0, 2, 4, 8}[kind]
	if kind == 0 && single {
		width = 1
	}
	if len(src) < width {
		return 0, nil, short("frame header")
	}
	field, rest := src[:width], src[width:]
	switch width {
	case 1:
		return int64(field[0]), rest, nil
	case 2:
		return int64(binary.LittleEndian.Uint16(field)) + 256, rest, nil
	case 4:
		return int64(binary.LittleEndian.Uint32(field)), rest, nil
	case 8:
		size = int64(binary.LittleEndian.Uint64(field))
		if size < 0 {
			return 0, nil, corrupt("declared size %#x is out of range", uint64(size))
		}
		return size, rest, nil
	}
	return zstdUnknown, rest, nil
}

// skipBlocks walks over the blocks of the frame, adds up the most they can hold, and returns what follows the last.
func (f *zstdFrame) skipBlocks(src []byte) ([]byte, error) {
	for last := false; !last; {
		if len(src) < 3 {
			return nil, short("block header")
		}
		head := uint32(src[0]) | uint32(src[1])<<8 | uint32(src[2])<<16
		last = head&1 != 0
		size, room := int(head>>3), uint64(head>>3)
		if size > zstdMaxBlock {
			return nil, corrupt("block of %d bytes, at most %d are allowed", size, zstdMaxBlock)
		}
		switch head >> 1 & 3 {
		case zstdBlockRaw:
		case zstdBlockRLE:
			size = 1
		case zstdBlockCoded:
			room = zstdMaxBlock
		default:
			return nil, corrupt("reserved block type")
		}
		if src = src[3:]; len(src) < size {
			return nil, short("block")
		}
		src = src[size:]
		f.most += room
	}
	return src, nil
}
