package catalog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// indexMagic begins every decoded index; its number is the format's version.
const indexMagic = "mbwrap index 1\n"

// Sections of an index: a tag, the length of the content as uvarint, the content.
const (
	sectionBlocks = 'B'
	sectionChunks = 'C'
	sectionEnd    = 'Z'
)

// Tags of the records in the chunks section. docs/FORMAT.md defines them; they are never renumbered.
const (
	recordFile    = 0 // the path of the next file version
	recordPayload = 1
	recordEnd     = 2
	recordSeek    = 3
	recordRename  = 4
	recordRemove  = 5
	recordSparse  = 6
	recordGap     = 7 // bytes of stream that belong to no recorded chunk
)

// IndexBuilder collects an index while a stream passes by: it is the xbstream.Handler of a Checker, and its Block goes
// to pipeline.PackOptions.OnBlock. Both may run side by side, each on one goroutine. It keeps the encoded records only:
// some 7 bytes a chunk and 11 a block, and each path once.
type IndexBuilder struct {
	blocks []byte
	volume int
	raw    int64 // bytes in all blocks

	chunks   []byte
	position int64 // stream offset behind the last record
	file     int   // the file version of the last record
	files    int   // versions so far
}

// Block records a block.
func (b *IndexBuilder) Block(block pipeline.Block) {
	b.raw += block.RawSize
	size := uint64(block.RawSize) << 1
	if block.Volume != b.volume {
		b.volume = block.Volume
		size |= 1
	}
	b.blocks = binary.AppendUvarint(b.blocks, size)
	b.blocks = binary.AppendUvarint(b.blocks, uint64(block.StoredSize))
	b.blocks = binary.LittleEndian.AppendUint32(b.blocks, block.CRC)
}

// Chunk records a chunk.
func (b *IndexBuilder) Chunk(c *xbstream.Chunk) error {
	if c.File > b.files {
		return fmt.Errorf("index: internal error: file version %d after %d", c.File, b.files-1)
	}
	b.chunks = appendGap(b.chunks, c.Start-b.position)
	b.position = c.Data + c.Size
	if c.File >= b.files {
		b.files++
		b.chunks = appendString(append(b.chunks, recordFile), c.Path)
	}
	switch c.Type {
	case xbstream.TypePayload:
		b.record(recordPayload, c)
		b.chunks = binary.AppendUvarint(b.chunks, uint64(c.Size))
	case xbstream.TypeEnd:
		b.record(recordEnd, c)
	case xbstream.TypeSeek:
		b.record(recordSeek, c)
		b.chunks = binary.AppendUvarint(b.chunks, uint64(c.Offset))
	case xbstream.TypeRename:
		b.chunks = appendString(append(b.chunks, recordRename), c.Path)
		b.chunks = appendString(b.chunks, c.NewPath)
	case xbstream.TypeRemove:
		b.chunks = appendString(append(b.chunks, recordRemove), c.Path)
	case xbstream.TypeSparse:
		b.record(recordSparse, c)
		b.chunks = binary.AppendUvarint(b.chunks, uint64(len(c.Extents)))
		for _, e := range c.Extents {
			b.chunks = binary.AppendUvarint(b.chunks, uint64(e.Skip))
			b.chunks = binary.AppendUvarint(b.chunks, uint64(e.Len))
		}
	default:
		return fmt.Errorf("index: internal error: chunk type %q", c.Type)
	}
	return nil
}

// Data ignores the payload.
func (b *IndexBuilder) Data([]byte) error { return nil }

// record begins a record of the chunk's file.
func (b *IndexBuilder) record(tag byte, c *xbstream.Chunk) {
	b.chunks = binary.AppendVarint(append(b.chunks, tag), int64(c.File-b.file))
	b.file = c.File
}

// Encode returns the decoded form of the index object. The builder may go on collecting.
func (b *IndexBuilder) Encode() []byte {
	out := make([]byte, 0, len(indexMagic)+len(b.blocks)+len(b.chunks)+64)
	out = append(out, indexMagic...)
	out = appendSection(out, sectionBlocks, b.blocks)
	out = appendSection(out, sectionChunks, b.chunksTo(b.raw))
	return appendSection(out, sectionEnd, nil)
}

// SameChunks tells whether the builder saw exactly the chunks that ix records. It need not have seen blocks.
func (b *IndexBuilder) SameChunks(ix *Index) bool { return bytes.Equal(b.chunksTo(ix.raw), ix.chunks) }

// chunksTo returns the records of a stream of size bytes: after the last chunk there may be skipped ones.
func (b *IndexBuilder) chunksTo(size int64) []byte {
	return appendGap(slices.Clip(b.chunks), size-b.position)
}

// appendGap records that n bytes belong to no recorded chunk.
func appendGap(dst []byte, n int64) []byte {
	if n <= 0 {
		return dst
	}
	return binary.AppendUvarint(append(dst, recordGap), uint64(n))
}

func appendSection(dst []byte, tag byte, content []byte) []byte {
	dst = binary.AppendUvarint(append(dst, tag), uint64(len(content)))
	return append(dst, content...)
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
