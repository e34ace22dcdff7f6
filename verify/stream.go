package verify

import (
	"errors"
	"fmt"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// stream proves the raw stream of a backup while its pieces come in, in order. As long as none is missing it is checked
// as a whole. Behind a gap, of damage or because only a sample is read, it goes on with the next whole chunk that the
// index knows; without an index it can't. It belongs to one goroutine at a time and must be closed.
type stream struct {
	checker *checker
	index   *catalog.Index // nil: unknown
	parser  *xbstream.Checker
	entire  bool  // the parser has seen every byte so far
	next    int64 // raw offset behind the last piece
	pages   *pageChecker

	// While entire:
	built catalog.IndexBuilder // what the index should say
	end   int64                // raw offset behind the last chunk that began

	// Behind a gap, if there is an index:
	resume *chunkCursor // finds the next whole chunk
	pieces *chunkCursor // finds the files in a piece
	seen   []bool       // by file version
	strays bool         // a chunk was found that the index does not know
}

// newStream returns the check of a stream from its first byte.
func (c *checker) newStream(index *catalog.Index) *stream {
	s := &stream{checker: c, index: index, entire: true}
	if c.options.Level.atLeast(Pages) {
		s.pages = newPageChecker(c)
	}
	s.parser = xbstream.NewChecker(xbstream.Options{Handler: (*entireHandler)(s)})
	return s
}

// entireHandler is shown the chunks of a stream without gaps.
type entireHandler stream

func (h *entireHandler) Chunk(c *xbstream.Chunk) error {
	h.end = c.Data + c.Size
	if h.pages != nil {
		_ = h.pages.Chunk(c) // it has no errors
	}
	return h.built.Chunk(c)
}

func (h *entireHandler) Data(p []byte) error {
	if h.pages != nil {
		_ = h.pages.Data(p) // it has no errors
	}
	return nil
}

// take checks the next piece.
func (s *stream) take(raw *pipeline.Raw) error {
	defer raw.Release()
	s.checker.report.RawBytes += int64(len(raw.Data))
	start, data := raw.Offset, raw.Data
	if s.entire && start == s.next {
		_, err := s.parser.Write(data)
		if err == nil {
			s.next += int64(len(data))
			return nil
		}
		s.gap()
		at := min(max(s.fail(err)+1-start, 0), int64(len(data))) // what is behind the faulty head is looked at again
		start, data = start+at, data[at:]
	}
	if start != s.next {
		s.gap()
	}
	s.takePart(start, data)
	return nil
}

// gap ends the check of the stream as a whole: something is missing behind the last piece.
func (s *stream) gap() {
	if s.pages != nil {
		s.pages.gap(s.next)
	}
	if !s.entire {
		return
	}
	s.entire = false
	stats := s.parser.Stats()
	s.checker.report.Chunks, s.checker.report.Files = stats.Chunks, int64(stats.Files)
	s.parser = nil
	if s.index == nil {
		return
	}
	s.resume, s.pieces = newChunkCursor(s.index), newChunkCursor(s.index)
	s.seen = make([]bool, len(s.index.Versions()))
	s.checker.report.Files = 0
	s.look(0, s.next, nil)
}

// fail reports an error of the parser and ends it. It returns the raw offset of the faulty chunk.
func (s *stream) fail(err error) int64 {
	p := s.checker.streamProblem(err)
	s.checker.problem(p)
	s.parser = nil
	if s.resume != nil {
		s.resume.seek(p.RawOffset + 1)
	}
	return p.RawOffset
}

// takePart checks the whole chunks in a piece of a stream that has gaps.
func (s *stream) takePart(start int64, data []byte) {
	if s.index == nil {
		return
	}
	if start != s.next {
		s.parser = nil // the chunk that it is in has lost its end
	}
	s.next = start + int64(len(data))
	s.look(start, s.next, data)
	for {
		if s.parser == nil {
			s.resume.seek(start)
			if !s.resume.ok || s.resume.Start >= s.next {
				return
			}
			start, data = s.resume.Start, data[s.resume.Start-start:]
			s.parser = xbstream.NewChecker(xbstream.Options{Handler: (*partHandler)(s), Base: start, Fragment: true})
		}
		if _, err := s.parser.Write(data); err == nil {
			return
		} else {
			s.fail(err)
		}
	}
}

// look goes through the chunks of which any byte lies from start to end: it counts their files and has their pages
// checked, if there is data.
func (s *stream) look(start, end int64, data []byte) {
	for c := s.pieces; c.ok && c.Start < end; c.step() {
		if c.File >= 0 && c.end() > start {
			if !s.seen[c.File] {
				s.seen[c.File] = true
				s.checker.report.Files++
			}
			if s.pages != nil && data != nil {
				s.pages.part(&c.Chunk, start, data)
			}
		}
		if c.end() > end {
			return // it goes on in the next piece
		}
	}
}

// partHandler is shown the whole chunks of a stream with gaps.
type partHandler stream

func (h *partHandler) Chunk(c *xbstream.Chunk) error {
	h.checker.report.Chunks++
	known := h.resume
	known.seek(c.Start)
	if known.ok && known.Start == c.Start && known.Data == c.Data && known.Type == c.Type && known.Path == c.Path &&
		known.NewPath == c.NewPath && known.Offset == c.Offset && known.Size == c.Size {
		return nil
	}
	if !h.strays {
		h.strays = true
		name := h.checker.backup.Manifest.Index.Name
		h.checker.problem(whole(name, fmt.Sprintf("it does not describe the chunk at offset %d of the stream", c.Start)))
	}
	return nil
}

func (h *partHandler) Data([]byte) error { return nil }

// finish judges the end of the stream.
func (s *stream) finish() {
	if s.pages != nil {
		s.pages.finish()
	}
	if !s.entire {
		if s.parser != nil && s.next == s.index.RawSize() {
			if err := s.parser.Close(); err != nil {
				s.fail(err)
			}
		}
		return
	}
	c := s.checker
	m := c.backup.Manifest
	stats := s.parser.Stats()
	c.report.Chunks, c.report.Files = stats.Chunks, int64(stats.Files)
	if err := s.parser.Close(); err != nil {
		c.problem(c.streamProblem(err))
		return
	}
	if stats.Bytes != m.RawBytes {
		c.problem(whole("", fmt.Sprintf("it has %d bytes, the manifest says %d", stats.Bytes, m.RawBytes)))
	}
	if s.index != nil && !s.built.SameChunks(s.index) {
		c.problem(whole(m.Index.Name, "it does not describe the chunks that are in the stream"))
	}
}

// maxFront bounds how far behind the last byte the chunk that it is in may end, for front to be tried.
const maxFront = 1 << 40

// front returns an index of the stream as far as it could be followed as a whole.
func (s *stream) front() (*catalog.Index, error) {
	if s.end-s.next > maxFront {
		return nil, catalog.ErrIndex
	}
	for left := s.end; left > 0; left -= pipeline.MaxBlockSize { // an index without blocks holds no chunks
		s.built.Block(pipeline.Block{RawSize: min(left, pipeline.MaxBlockSize), Volume: 1, StoredSize: 1})
	}
	return catalog.DecodeIndex(s.built.Encode())
}

// close frees what the check holds.
func (s *stream) close() {
	if s.resume != nil {
		s.resume.close()
		s.pieces.close()
	}
}

// streamProblem turns an error of the stream's checker into a problem.
func (c *checker) streamProblem(err error) Problem {
	p := whole("", err.Error())
	if place, found := errors.AsType[*xbstream.Error](err); found {
		p.RawOffset = place.Offset
		if place.Path != "" {
			p.addFile(place.Path)
			c.lose(place.Path, whyDamaged)
		}
	}
	c.place(&p)
	return p
}
