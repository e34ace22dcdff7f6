package xbstream

import "fmt"

// Magic begins every chunk.
const Magic = "XBSTCK01"

// Limits on what a chunk head may claim. Nothing is allocated for a length before it has been compared with its limit.
const (
	// MaxPath is the longest path in bytes: readers of the format refuse 512.
	MaxPath = 511
	// MaxOffset bounds every position in a file: no payload reaches beyond it.
	MaxOffset = int64(1) << 62
	// MaxExtents is the largest number of entries in the map of a sparse chunk (2 MiB of map).
	MaxExtents = 1 << 18
)

// Flags of a chunk. Other bits are refused.
const (
	// FlagIgnorable marks a chunk that a reader which doesn't know its type may skip.
	FlagIgnorable byte = 1
	// FlagRewrite marks the payloads of a file that is sent again as a whole: it replaces the version that has ended
	// before. It counts on the chunk that opens the new version; MariaDB sets it on all payloads of it and not on the end.
	FlagRewrite byte = 2
)

// A Type says what a chunk does. But for TypeSparse it is the byte on the wire.
type Type byte

const (
	// TypePayload appends bytes to a file.
	TypePayload Type = 'P'
	// TypeEnd completes a file. It is the only chunk of an empty file.
	TypeEnd Type = 'E'
	// TypeSeek moves the position at which the next payload of the file is written (MariaDB).
	TypeSeek Type = 'S'
	// TypeRename renames a file that has ended (MariaDB).
	TypeRename Type = 'R'
	// TypeRemove removes a file that has ended, a directory, or every path with a prefix (MariaDB).
	TypeRemove Type = 'D'
	// TypeSparse is a payload with holes (Percona). On the wire it is 'S' as TypeSeek. A seek is 8 bytes long and the next
	// chunk's magic follows; in a sparse chunk these 8 bytes belong to two length fields which would be out of bounds
	// if they read as the magic.
	TypeSparse Type = 's'
)

// String returns the type's name, such as "payload".
func (t Type) String() string {
	switch t {
	case TypePayload:
		return "payload"
	case TypeEnd:
		return "end"
	case TypeSeek:
		return "seek"
	case TypeRename:
		return "rename"
	case TypeRemove:
		return "remove"
	case TypeSparse:
		return "sparse"
	}
	return fmt.Sprintf("type 0x%02x", byte(t))
}

// An Extent is one entry of a sparse chunk's map: a hole of Skip bytes, then Len bytes of the payload.
type Extent struct {
	Skip, Len uint32
}

// A Header is the head of a chunk: everything but its payload.
type Header struct {
	Type  Type
	Flags byte   // FlagIgnorable, FlagRewrite
	Path  string // bytes in the server's file name encoding, '/' between elements; legal by CheckPath

	NewPath string // rename only: the path afterwards

	Offset  int64    // payload, sparse: position in the file of the first byte; seek: the new position
	Size    int64    // payload, sparse: bytes of payload that follow the head; 0 in all others
	CRC     uint32   // payload: CRC-32 (IEEE) of the payload; sparse: of the map as stored, then the payload
	Extents []Extent // sparse only: the lengths add up to Size
}

// Advance returns by how much a payload or sparse chunk moves the position in its file: its bytes and its holes.
func (h *Header) Advance() int64 {
	n := h.Size
	for _, e := range h.Extents {
		n += int64(e.Skip)
	}
	return n
}

// A Chunk is a chunk's head and its place in the stream.
type Chunk struct {
	Header
	Start int64 // stream offset of the first byte of the magic
	Data  int64 // stream offset just after the head: the first byte of the payload, or the next chunk
	// File is the number of the file version the chunk belongs to: 0, 1, 2… in the order in which the versions are
	// opened. Sending an ended path again makes a new version. -1 for rename and remove, and in a fragment.
	File int
}
