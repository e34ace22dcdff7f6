package xbstream

import (
	"fmt"
	"hash/crc32"
	"io"
)

// Stats counts what was seen so far.
type Stats struct {
	Bytes    int64 // of the stream
	Chunks   int64 // of any type, ignored ones included
	Files    int   // file versions opened
	Rewrites int   // of these, versions that replaced one that had ended
	Renames  int   // rename chunks
	Removes  int   // remove chunks
	Ignored  int   // ignorable chunks of unknown type, skipped
	// Dialect is DialectMariaDB if the last chunk that only one of the two writes was a seek, rename, remove or rewrite,
	// DialectPercona if it was sparse, "" if there was none.
	Dialect string
}

// Dialects, see Stats.
const (
	DialectMariaDB = "mariadb"
	DialectPercona = "percona"
)

// A stream is the part that Checker, Reader and Writer share: it takes heads and payload that somebody else has found in
// the input, in order, and enforces the rules.
type stream struct {
	ledger *ledger // nil for a fragment
	names  map[string]string
	cur    Chunk
	skip   bool   // cur is ignored
	left   int64  // bytes of payload still to come
	crc    uint32 // of the payload so far
	pos    int64  // stream offset of the next byte
	base   int64  // of the first byte
	stats  Stats
}

func newStream(base int64, fragment bool) stream {
	s := stream{base: base, pos: base}
	if fragment {
		s.names = make(map[string]string)
		return s
	}
	s.ledger = newLedger()
	return s
}

// begin starts the chunk whose head h begins at pos.
func (s *stream) begin(h *head) error {
	path, file, err := s.judge(h)
	if err != nil {
		return s.place(err)
	}
	s.cur = Chunk{
		Header: Header{Type: h.typ, Flags: h.flags, Path: path, Offset: h.offset, Size: h.size, CRC: h.crc, Extents: s.cur.Extents[:0]},
		Start:  s.pos, Data: s.pos + int64(h.length), File: file,
	}
	if h.typ == TypeRename {
		s.cur.NewPath = string(h.newPath)
	}
	for e := range h.eachExtent {
		s.cur.Extents = append(s.cur.Extents, e)
	}
	s.skip, s.left, s.crc = h.ignored, h.size, crc32.ChecksumIEEE(h.extents)
	s.pos = s.cur.Data
	s.count()
	return nil
}

// judge applies the rules and returns path and file number.
func (s *stream) judge(h *head) (string, int, *Error) {
	if h.ignored {
		path := string(h.path)
		if err := CheckPath(path); err != nil {
			return "", 0, &Error{Kind: KindPath, Path: path, Err: err}
		}
		return path, -1, nil
	}
	if s.ledger != nil {
		return s.ledger.apply(h, s.pos)
	}
	path, err := s.intern(h.path, h.typ)
	if err == nil && h.typ == TypeRename {
		_, err = s.intern(h.newPath, h.typ)
	}
	return path, -1, err
}

// maxNames bounds the memory for shared paths in a fragment.
const maxNames = 4096

// intern checks a path of a fragment and returns it, shared with earlier chunks where possible.
func (s *stream) intern(b []byte, typ Type) (string, *Error) {
	if path, ok := s.names[string(b)]; ok {
		return path, nil
	}
	path, check := string(b), CheckPath
	if typ == TypeRemove {
		check = checkRemove
	}
	if err := check(path); err != nil {
		return "", &Error{Kind: KindPath, Path: path, Err: err}
	}
	if typ == TypeRemove {
		return path, nil
	}
	if len(s.names) >= maxNames {
		clear(s.names)
	}
	s.names[path] = path
	return path, nil
}

func (s *stream) count() {
	s.stats.Chunks++
	switch {
	case s.skip:
		s.stats.Ignored++
		return
	case s.cur.Type == TypeRename:
		s.stats.Renames++
	case s.cur.Type == TypeRemove:
		s.stats.Removes++
	case s.cur.Type == TypeSparse:
		s.stats.Dialect = DialectPercona
	case s.cur.Type != TypeSeek && s.cur.Flags&FlagRewrite == 0:
		return
	}
	if s.cur.Type != TypeSparse {
		s.stats.Dialect = DialectMariaDB
	}
}

// data takes the next bytes of the payload, at most left.
func (s *stream) data(p []byte) {
	s.crc = crc32.Update(s.crc, crc32.IEEETable, p)
	s.left -= int64(len(p))
	s.pos += int64(len(p))
}

// end judges a chunk whose bytes are complete.
func (s *stream) end() error {
	if s.crc == s.cur.CRC {
		return nil
	}
	return &Error{
		Kind: KindChecksum, Offset: s.cur.Start, Path: s.cur.Path,
		Err: fmt.Errorf("checksum is 0x%08x, the chunk says 0x%08x", s.crc, s.cur.CRC),
	}
}

// finish judges the end of the stream, given the bytes of a head that stayed incomplete.
func (s *stream) finish(rest []byte, expect Expect) error {
	switch {
	case s.left > 0:
		return &Error{
			Kind: KindTruncated, Offset: s.cur.Start, Path: s.cur.Path,
			Err: fmt.Errorf("stream ends at offset %d, %d bytes of payload are missing: %w", s.pos, s.left, io.ErrUnexpectedEOF),
		}
	case len(rest) > 0 && !magicPrefix(rest):
		return s.place(fault(KindMagic, "", "unexpected magic %q", rest[:min(len(rest), len(Magic))]))
	case len(rest) > 0:
		return s.cut(rest)
	case s.pos == s.base:
		return s.place(fault(KindEmpty, "", "empty stream"))
	case s.ledger == nil:
		return nil
	}
	if err := s.ledger.finish(expect); err != nil {
		return s.place(err)
	}
	return nil
}

// cut is the error for a stream that ends inside a head.
func (s *stream) cut(rest []byte) error {
	var h head
	_, _ = h.parse(rest, false)
	return s.place(&Error{
		Kind: KindTruncated, Path: string(h.path),
		Err: fmt.Errorf("stream ends after %d bytes of it: %w", len(rest), io.ErrUnexpectedEOF),
	})
}

// place fills in where a fault is, if it has no place yet: at the chunk that begins at pos.
func (s *stream) place(err *Error) error {
	if err.Offset == 0 {
		err.Offset = s.pos
	}
	return err
}

func (s *stream) snapshot() Stats {
	st := s.stats
	st.Bytes = s.pos - s.base
	if s.ledger != nil {
		st.Files, st.Rewrites = s.ledger.versions, s.ledger.rewrites
	}
	return st
}
