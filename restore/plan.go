package restore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// plan says which parts of a stream are needed for which files. It is read only.
type plan struct {
	index *catalog.Index
	files []catalog.File // to be made
	paths []string       // by number in the stream: where the file ends up, "" when it is not wanted
	// whole tells that every chunk is read, so that the completeness of the stream is proven on the way.
	whole bool
}

// span is a part of the stream, end not included.
type span struct{ start, end int64 }

// newPlan plans all files of the index that choose takes; nil takes every one.
func newPlan(index *catalog.Index, choose func(catalog.File) bool) (*plan, error) {
	p := &plan{index: index, files: index.Tree(), whole: choose == nil}
	if choose != nil {
		p.files = slices.DeleteFunc(p.files, func(f catalog.File) bool { return !choose(f) })
	}
	if len(p.files) == 0 {
		return nil, ErrNothing
	}
	p.setPaths()
	return p, nil
}

func (p *plan) setPaths() {
	p.paths = make([]string, len(p.index.Versions()))
	for _, f := range p.files {
		p.paths[f.Version] = f.Path
	}
}

// without returns a plan that leaves out the files that done tells are there already.
func (p *plan) without(done func(catalog.File) bool) *plan {
	rest := &plan{index: p.index, whole: p.whole}
	for _, f := range p.files {
		if !done(f) {
			rest.files = append(rest.files, f)
		}
	}
	rest.whole = p.whole && len(rest.files) == len(p.files)
	rest.setPaths()
	return rest
}

// parts returns the same plan, of which only the chunks of its files are read.
func (p *plan) parts() *plan {
	parts := *p
	parts.whole = false
	return &parts
}

// size returns the bytes of all files.
func (p *plan) size() int64 {
	var n int64
	for _, f := range p.files {
		n += f.Size
	}
	return n
}

// digest tells a selection of files from others.
func (p *plan) digest() string {
	h := sha256.New()
	for _, f := range p.files {
		fmt.Fprintf(h, "%d %q\n", f.Version, f.Path)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// chunks yields the chunks that are read, in order.
func (p *plan) chunks() iter.Seq[*xbstream.Chunk] {
	return func(yield func(*xbstream.Chunk) bool) {
		for c := range p.index.Chunks() {
			if (p.whole || p.wants(c)) && !yield(c) {
				return
			}
		}
	}
}

// wants tells whether c belongs to a file that is made.
func (p *plan) wants(c *xbstream.Chunk) bool { return c.File >= 0 && p.paths[c.File] != "" }

// spans yields the parts of the stream that are read, in order. Chunks that follow each other make one span.
func (p *plan) spans() iter.Seq[span] {
	return func(yield func(span) bool) {
		if p.whole {
			yield(span{0, p.index.RawSize()})
			return
		}
		var s span
		for c := range p.chunks() {
			end := c.Data + c.Size
			if c.Start == s.end {
				s.end = end
				continue
			}
			if s.end > s.start && !yield(s) {
				return
			}
			s = span{c.Start, end}
		}
		if s.end > s.start {
			yield(s)
		}
	}
}

// blocks yields the blocks that hold any byte of the spans, in order and each once.
func (p *plan) blocks() iter.Seq[pipeline.Block] {
	return func(yield func(pipeline.Block) bool) {
		next, stop := iter.Pull(p.spans())
		defer stop()
		s, more := next()
		for b := range p.index.AllBlocks() {
			for more && s.end <= b.Raw {
				s, more = next()
			}
			if !more {
				return
			}
			if s.start < b.Raw+b.RawSize && !yield(b) {
				return
			}
		}
	}
}

// total returns the bytes of all blocks that are read.
func (p *plan) total() int64 {
	var n int64
	for b := range p.blocks() {
		n += b.RawSize
	}
	return n
}
