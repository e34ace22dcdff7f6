package codec

import "encoding/binary"

// Facts of the LZ4 frame format, version 1.6.1.
const (
	lz4Magic       = 0x184D2204
	lz4LegacyMagic = 0x184C2102
	lz4MinBlock    = 64 << 10
	lz4RawBlock    = 1 << 31 // in a block's size: stored as it is
	lz4FlagSum     = 1 << 4  // each block has a checksum
	lz4FlagSize    = 1 << 3
	lz4FlagTotal   = 1 << 2 // the content has a checksum
	lz4FlagDict    = 1 << 0
)

var lz4Magics = []magic{{want: []byte{0x04, 0x22, 0x4D, 0x18}}}

// lz4Frame is the outline of a frame, found without decoding.
type lz4Frame struct {
	flags    byte
	blockMax int    // no block decodes to more
	most     uint64 // no more data than that can come out
}

// checkLZ4 accepts src only if it is exactly one checksummed frame, without dictionary, that can hold size bytes.
func checkLZ4(src []byte, size int) error {
	frame, rest, err := parseLZ4Header(src, size)
	if err != nil {
		return err
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

// parseLZ4Header reads a frame's header, whose declared size, if any, has to be size, and returns what follows it. The
// header's own checksum is left to the decoder.
func parseLZ4Header(src []byte, size int) (frame lz4Frame, rest []byte, err error) {
	if len(src) < 7 {
		return frame, nil, short("frame header")
	}
	if m := binary.LittleEndian.Uint32(src); m != lz4Magic {
		return frame, nil, corrupt("unexpected magic %#08x", m)
	}
	frame.flags = src[4]
	kind := src[5] >> 4 & 7
	switch {
	case frame.flags>>6 != 1:
		return frame, nil, corrupt("unknown version %d", frame.flags>>6)
	case frame.flags&lz4FlagTotal == 0:
		return frame, nil, corrupt("frame has no checksum")
	case frame.flags&lz4FlagDict != 0:
		return frame, nil, corrupt("frame needs a dictionary")
	case kind < 4:
		return frame, nil, corrupt("unknown block size %d", kind)
	}
	frame.blockMax = 1 << (8 + 2*kind)
	if frame.flags&lz4FlagSize == 0 {
		return frame, src[7:], nil
	}
	if len(src) < 15 {
		return frame, nil, short("frame header")
	}
	if got := binary.LittleEndian.Uint64(src[6:]); got != uint64(size) {
		return frame, nil, wrongSize(got, size)
	}
	return frame, src[15:], nil
}

// skipBlocks walks over the blocks of the frame and the end mark, adds up the most they can hold, and returns what
// follows.
func (f *lz4Frame) skipBlocks(src []byte) ([]byte, error) {
	for {
		if len(src) < 4 {
			return nil, short("block header")
		}
		head := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if head == 0 {
			return src, nil
		}
		size, room := int(head&^lz4RawBlock), f.blockMax
		if head&lz4RawBlock != 0 {
			room = size
		}
		if size > f.blockMax {
			return nil, corrupt("block of %d bytes, at most %d are allowed", size, f.blockMax)
		}
		if f.flags&lz4FlagSum != 0 {
			size += 4
		}
		if len(src) < size {
			return nil, short("block")
		}
		src = src[size:]
		f.most += uint64(room)
	}
}
