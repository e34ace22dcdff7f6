package catalog

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"sort"
	"strconv"
	"strings"

	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// MaxIndex is the largest decoded index that is read, in bytes. It is room for some 100 million chunks.
const MaxIndex = 1 << 30

// Index tells where the blocks of a backup and the chunks of its files are. It is read only and may be used by several
// goroutines. Its records stay encoded in memory and are decoded while they are walked.
type Index struct {
	blocks  []byte
	marks   []blockMark
	raw     int64 // bytes of raw stream in all blocks
	count   int64
	volumes int

	chunks   []byte
	events   int64
	versions []Version
}

// Version is a file as it once was in the stream: a path that is sent again later makes a new one.
type Version struct {
	Path   string // under which it was sent
	Size   int64  // bytes of the file
	Chunks int64
}

// blockMark is a place in the encoded blocks from which decoding can start.
type blockMark struct {
	at   int            // offset in Index.blocks
	next pipeline.Block // Raw, Volume and Stored of the block that is encoded there
}

const blocksPerMark = 512

// readIndex decodes an index object, which is a zstd stream, from r.
func readIndex(r io.Reader) (*Index, error) {
	zstd, err := codec.Lookup("zstd")
	if err != nil {
		return nil, err
	}
	plain, err := zstd.NewReader(r)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	data, err := io.ReadAll(io.LimitReader(plain, MaxIndex+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIndex, err)
	}
	return DecodeIndex(data)
}

// DecodeIndex checks and opens what IndexBuilder.Encode returned. The Index keeps data. Every record is checked once,
// here: paths are legal, places are inside the stream, the counts agree. The errors match ErrIndex or ErrFormat.
func DecodeIndex(data []byte) (*Index, error) {
	if len(data) > MaxIndex {
		return nil, fmt.Errorf("%w: it is larger than %d bytes", ErrIndex, MaxIndex)
	}
	if err := checkMagic(data); err != nil {
		return nil, err
	}
	ix := new(Index)
	if err := ix.sections(data[len(indexMagic):]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIndex, err)
	}
	if err := ix.checkBlocks(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIndex, err)
	}
	if err := ix.checkChunks(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIndex, err)
	}
	return ix, nil
}

// checkMagic reads the first line.
func checkMagic(data []byte) error {
	head, _, found := strings.Cut(string(data[:min(len(data), 32)]), "\n")
	number, ours := strings.CutPrefix(head, "mbwrap index ")
	format, err := strconv.ParseUint(number, 10, 32)
	switch {
	case found && ours && err == nil && format > Format:
		return fmt.Errorf("index format %d: %w", format, ErrFormat)
	case !found || head+"\n" != indexMagic:
		return fmt.Errorf("%w: it does not begin as an index", ErrIndex)
	}
	return nil
}

// sections splits data at its section heads. Sections with a small letter, which a later version may add anywhere before
// the end, are skipped.
func (ix *Index) sections(data []byte) error {
	wanted := []byte{sectionBlocks, sectionChunks, sectionEnd}
	for len(wanted) > 0 {
		if len(data) == 0 {
			return fmt.Errorf("section %q is missing", wanted[0])
		}
		tag := data[0]
		size, n := binary.Uvarint(data[1:])
		if n <= 0 || size > uint64(len(data)-1-n) {
			return fmt.Errorf("section %q is cut", tag)
		}
		content := data[1+n : 1+n+int(size)]
		data = data[1+n+int(size):]
		if 'a' <= tag && tag <= 'z' {
			continue
		}
		if tag != wanted[0] {
			return fmt.Errorf("section %q stands where %q should be", tag, wanted[0])
		}
		wanted = wanted[1:]
		switch tag {
		case sectionBlocks:
			ix.blocks = content
		case sectionChunks:
			ix.chunks = content
		case sectionEnd:
			if extra := len(content) + len(data); extra > 0 {
				return fmt.Errorf("%d bytes follow its end", extra)
			}
		}
	}
	return nil
}

// RawSize returns the bytes of raw stream.
func (ix *Index) RawSize() int64 { return ix.raw }

// NumBlocks returns the number of blocks.
func (ix *Index) NumBlocks() int64 { return ix.count }

// NumChunks returns the number of chunks, renames and removes included.
func (ix *Index) NumChunks() int64 { return ix.events }

// Versions returns all file versions, in the order in which they first appear; the place in the slice is
// xbstream.Chunk.File. The slice belongs to the index.
func (ix *Index) Versions() []Version { return ix.versions }

// checkBlocks walks all blocks once, sets the marks, and sums up.
func (ix *Index) checkBlocks() error {
	next := pipeline.Block{}
	for at := 0; at < len(ix.blocks); {
		if ix.count%blocksPerMark == 0 {
			ix.marks = append(ix.marks, blockMark{at, next})
		}
		block, n, err := decodeBlock(ix.blocks[at:], next)
		if err != nil {
			return fmt.Errorf("block %d: %w", ix.count, err)
		}
		at += n
		next = after(block)
		ix.count++
	}
	ix.raw, ix.volumes = next.Raw, next.Volume
	return nil
}

// after returns the place at which the block behind b begins.
func after(b pipeline.Block) pipeline.Block {
	return pipeline.Block{Raw: b.Raw + b.RawSize, Volume: b.Volume, Stored: b.Stored + b.StoredSize}
}

// decodeBlock decodes one block record. next tells where the block begins unless it opens a volume.
func decodeBlock(data []byte, next pipeline.Block) (b pipeline.Block, n int, err error) {
	size, n1 := binary.Uvarint(data)
	if n1 <= 0 {
		return b, 0, io.ErrUnexpectedEOF
	}
	stored, n2 := binary.Uvarint(data[n1:])
	n = n1 + n2 + 4
	if n2 <= 0 || n > len(data) {
		return b, 0, io.ErrUnexpectedEOF
	}
	b = next
	if size&1 == 1 {
		b.Volume, b.Stored = next.Volume+1, 0
	}
	size >>= 1
	if size < 1 || size > pipeline.MaxBlockSize || stored < 1 || stored > 2*pipeline.MaxBlockSize || b.Volume < 1 {
		return b, 0, fmt.Errorf("raw size %d, stored size %d, volume %d", size, stored, b.Volume)
	}
	b.RawSize, b.StoredSize = int64(size), int64(stored)
	b.CRC = binary.LittleEndian.Uint32(data[n-4:])
	return b, n, nil
}

// Blocks yields, in order, the blocks that hold any byte of the raw stream from start to end, end not included.
func (ix *Index) Blocks(start, end int64) iter.Seq[pipeline.Block] {
	return func(yield func(pipeline.Block) bool) {
		if start >= end || len(ix.marks) == 0 {
			return
		}
		i := sort.Search(len(ix.marks), func(i int) bool { return ix.marks[i].next.Raw > start })
		mark := ix.marks[max(i-1, 0)]
		for at, next := mark.at, mark.next; at < len(ix.blocks) && next.Raw < end; {
			block, n, err := decodeBlock(ix.blocks[at:], next)
			if err != nil {
				panic("catalog: internal error: a block that was checked does not decode: " + err.Error())
			}
			at, next = at+n, after(block)
			if next.Raw > start && !yield(block) {
				return
			}
		}
	}
}

// AllBlocks yields every block in order.
func (ix *Index) AllBlocks() iter.Seq[pipeline.Block] { return ix.Blocks(0, ix.raw) }

// checkChunks walks all chunks once and collects the file versions.
func (ix *Index) checkChunks() error {
	w := chunkWalker{data: ix.chunks, limit: ix.raw}
	for {
		c, err := w.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("record %d of the chunks: %w", ix.events, err)
		}
		ix.events++
		if c.File < 0 {
			continue
		}
		if c.File == len(ix.versions) {
			ix.versions = append(ix.versions, Version{Path: c.Path})
		}
		v := &ix.versions[c.File]
		v.Chunks++
		if c.Type == xbstream.TypePayload || c.Type == xbstream.TypeSparse { // a seek alone makes no file longer
			v.Size = max(v.Size, w.files[c.File].position)
		}
	}
	if w.position != ix.raw {
		return fmt.Errorf("its chunks hold %d bytes, its blocks %d", w.position, ix.raw)
	}
	return nil
}

// Chunks yields every chunk in the order of the stream. The pointer is valid for one step only. CRC and Flags are not
// recorded and zero.
func (ix *Index) Chunks() iter.Seq[*xbstream.Chunk] {
	return func(yield func(*xbstream.Chunk) bool) {
		w := chunkWalker{data: ix.chunks, limit: ix.raw}
		for {
			c, err := w.next()
			if err == io.EOF {
				return
			}
			if err != nil {
				panic("catalog: internal error: a chunk that was checked does not decode: " + err.Error())
			}
			if !yield(c) {
				return
			}
		}
	}
}
