package restore

import (
	"fmt"
	"slices"

	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// router is the xbstream.Handler that puts the payload of the chunks of a plan where the plan wants it. It walks the
// index in step with the stream and refuses a stream that is not what the index says.
type router struct {
	assembler
	plan *plan
	next func() (*xbstream.Chunk, bool)
}

// Chunk compares the chunk with the index and begins, goes on with or ends its file.
func (r *router) Chunk(c *xbstream.Chunk) error {
	r.current = nil
	want, more := r.next()
	if !more {
		return fmt.Errorf("%w: a chunk of %q at offset %d is in the stream only", ErrMismatch, c.Path, c.Start)
	}
	if !sameChunk(c, want) {
		return fmt.Errorf("%w: %s of %q with %d bytes at offset %d of the stream, %s of %q with %d bytes at offset %d of the index",
			ErrMismatch, c.Type, c.Path, c.Size, c.Start, want.Type, want.Path, want.Size, want.Start)
	}
	if !r.plan.wants(want) {
		return nil
	}
	here := *c
	here.File = want.File
	f, err := r.file(&here, r.plan.paths[want.File])
	if err != nil {
		return err
	}
	return r.chunk(&here, f)
}

// sameChunk tells whether the stream has the chunk that the index says.
func sameChunk(got, want *xbstream.Chunk) bool {
	return got.Type == want.Type && got.Path == want.Path && got.NewPath == want.NewPath &&
		got.Start == want.Start && got.Data == want.Data && got.Size == want.Size &&
		(got.Offset == want.Offset || got.Type == xbstream.TypeEnd) &&
		slices.Equal(got.Extents, want.Extents)
}

// Data takes the next piece of the payload.
func (r *router) Data(p []byte) error { return r.data(p) }

// spanFeeder cuts the spans of a plan out of decoded blocks and has each checked.
type spanFeeder struct {
	router  *router
	next    func() (span, bool)
	span    span // the one that is being read; none when it is empty
	checker *xbstream.Checker
}

// emit takes the next block.
func (s *spanFeeder) emit(raw *pipeline.Raw) error {
	defer raw.Release()
	end := raw.Offset + int64(len(raw.Data))
	for {
		if s.checker == nil && !s.advance() || s.span.start >= end {
			return nil
		}
		from, to := max(s.span.start, raw.Offset), min(s.span.end, end)
		err := s.router.tree.feed(raw, raw.Data[from-raw.Offset:to-raw.Offset], s.checker)
		if err != nil {
			return err
		}
		if s.span.end > end {
			return nil
		}
		if err := s.checker.Close(); err != nil {
			return err
		}
		s.checker = nil
	}
}

// advance begins the next span and tells whether there is one.
func (s *spanFeeder) advance() bool {
	var more bool
	if s.span, more = s.next(); !more {
		return false
	}
	s.checker = xbstream.NewChecker(xbstream.Options{
		Handler: s.router, Base: s.span.start, Fragment: !s.router.plan.whole,
	})
	return true
}

// finish tells whether everything that was planned has come.
func (s *spanFeeder) finish() error {
	if s.checker != nil || s.advance() {
		return fmt.Errorf("%w: the stream ends before offset %d", ErrMismatch, s.span.end)
	}
	if c, more := s.router.next(); more {
		return fmt.Errorf("%w: a chunk of %q at offset %d is in the index only", ErrMismatch, c.Path, c.Start)
	}
	for _, f := range s.router.open {
		return fmt.Errorf("%w: file %q has no end", ErrMismatch, f.path)
	}
	return nil
}
