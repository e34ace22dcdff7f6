package restore

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// emit takes the next piece of a part.
func (g *gleaner) emit(raw *pipeline.Raw) error {
	defer raw.Release()
	data, at := raw.Data, g.base+raw.Offset
	g.read = raw.Offset + int64(len(data))
	for len(data) > 0 {
		if g.checker == nil {
			n := g.search(data, at)
			data, at = data[n:], at+int64(n)
			if g.checker == nil {
				return nil
			}
		}
		n, err := g.check(raw, data)
		if err == nil {
			return nil
		}
		if err := g.broken(err); err != nil {
			return err
		}
		data, at = data[n:], at+int64(n)
	}
	return nil
}

// check hands data to the checker and returns how much of it has been dealt with, which after an error is not nothing.
func (g *gleaner) check(raw *pipeline.Raw, data []byte) (int, error) {
	g.tree.raw = raw
	n, err := g.checker.Write(data)
	g.tree.raw = nil
	return max(n, 1), err
}

// search looks for the beginning of a chunk, begins a new run there, and returns how much of data it has dealt with. A
// magic may lie across two pieces.
func (g *gleaner) search(data []byte, at int64) int {
	kept := len(g.tail)
	look := append(g.tail, data[:min(len(data), len(xbstream.Magic)-1)]...)
	if i := bytes.Index(look, []byte(xbstream.Magic)); i >= 0 {
		n := i + len(xbstream.Magic) - kept
		g.begin(at - int64(kept-i))
		return n
	}
	i := bytes.Index(data, []byte(xbstream.Magic))
	if i >= 0 {
		g.begin(at + int64(i))
		return i + len(xbstream.Magic)
	}
	rest := append(g.tail, data[max(0, len(data)-len(xbstream.Magic)+1):]...)
	g.tail = bytes.Clone(rest[max(0, len(rest)-len(xbstream.Magic)+1):])
	return len(data)
}

// begin begins a run with a chunk whose magic has just been found.
func (g *gleaner) begin(at int64) {
	g.tail, g.run = nil, make(map[string]struct{})
	g.checker = xbstream.NewChecker(xbstream.Options{Handler: g, Base: at, Fragment: true})
	if _, err := g.checker.Write([]byte(xbstream.Magic)); err != nil {
		panic("restore: internal error: a checker refuses a magic: " + err.Error())
	}
}

// broken deals with an error of the checker: what follows is looked for again. The chunks before the first gap are what
// they seem to be. A run behind one may have begun inside of a payload that holds a stream itself, and then breaks off
// where that ends: nothing of such a run is kept.
func (g *gleaner) broken(err error) error {
	if g.fatal != nil {
		return g.fatal
	}
	if failed := g.tree.failed(); failed != nil {
		return failed
	}
	if g.gaps > 0 {
		for path := range g.run {
			if err := g.distrust(path); err != nil {
				return err
			}
		}
	}
	place, _ := errors.AsType[*xbstream.Error](err)
	return g.gap(place != nil && place.Kind == xbstream.KindChecksum)
}

// distrust gives up a file, open or ended.
func (g *gleaner) distrust(path string) error {
	why := cause{offset: -1, reason: "what seemed to be a part of it behind the damage proved to be something else"}
	if f := g.files[path]; f != nil {
		return g.lose(path, f, why)
	}
	g.losses.add(path, why)
	return g.tree.unlink(path)
}

// gap notes that a part of the stream is missing here. The next chunk has to be looked for. The last chunk counts if its
// payload has come to the end and is not wrong.
func (g *gleaner) gap(wrong bool) error {
	f := g.files[g.path]
	if f != nil && !f.lost && (wrong || g.left > 0) {
		if err := g.lose(g.path, f, cause{offset: -1, reason: "a part of it is damaged"}); err != nil {
			return err
		}
	}
	g.losses.unsure = true
	g.gaps++
	g.checker, g.current, g.run, g.tail, g.left = nil, nil, nil, nil, 0
	return nil
}

// gapUnlessFatal notes a gap when err says that a part of the stream is damaged, else it returns err.
func (g *gleaner) gapUnlessFatal(name string, err error) error {
	if !isDamage(err) && !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	g.losses.note(fmt.Sprintf("%q: %v", name, err))
	return g.gap(false)
}

// finish ends the stream.
func (g *gleaner) finish() error {
	if g.checker != nil {
		if err := g.checker.Close(); err != nil {
			g.losses.note(err.Error())
			if err := g.broken(err); err != nil {
				return err
			}
		}
	}
	for path, f := range g.files {
		if f.lost {
			continue
		}
		if err := g.lose(path, f, cause{offset: -1, reason: "its end is lost"}); err != nil {
			return err
		}
	}
	return nil
}

// lose gives up an open file. Its other chunks are left out until a new version of it begins.
func (g *gleaner) lose(path string, f *gleaned, why cause) error {
	g.losses.add(path, why)
	f.lost = true
	there := g.open[f.number]
	if there == nil {
		return nil
	}
	delete(g.open, f.number)
	return g.tree.drop(there)
}

// Chunk does what a chunk says, as far as its file can still be whole.
func (g *gleaner) Chunk(c *xbstream.Chunk) error {
	g.path, g.left = c.Path, c.Size
	g.fatal = g.take(c)
	return g.fatal
}

// Data takes the next piece of the payload.
func (g *gleaner) Data(p []byte) error {
	g.left -= int64(len(p))
	g.fatal = g.data(p)
	return g.fatal
}

func (g *gleaner) take(c *xbstream.Chunk) error {
	g.current = nil
	if c.Type == xbstream.TypeRename || c.Type == xbstream.TypeRemove {
		return g.move(c)
	}
	f := g.files[c.Path]
	switch {
	case f == nil || f.lost && g.begins(c):
		return g.first(c)
	case f.lost:
		if c.Type == xbstream.TypeEnd {
			delete(g.files, c.Path)
		}
		return nil
	case f.gaps != g.gaps && !g.proven(c, f):
		if err := g.lose(c.Path, f, cause{offset: -1, reason: "a part of it may lie in the damage"}); err != nil {
			return err
		}
		if c.Type == xbstream.TypeEnd {
			delete(g.files, c.Path)
		}
		return nil
	}
	f.gaps = g.gaps
	return g.put(c, f)
}

// begins tells whether c is certainly the first chunk of its file.
func (g *gleaner) begins(c *xbstream.Chunk) bool {
	payload := c.Type == xbstream.TypePayload || c.Type == xbstream.TypeSparse
	return payload && c.Offset == 0 || g.gaps == 0
}

// proven tells whether a file that was open at a gap has lost nothing in it.
func (g *gleaner) proven(c *xbstream.Chunk, f *gleaned) bool {
	payload := c.Type == xbstream.TypePayload || c.Type == xbstream.TypeSparse
	return payload && continues(g.open[f.number], c)
}

// first begins a file, in the place of an older version if there is one.
func (g *gleaner) first(c *xbstream.Chunk) error {
	g.last++
	f := &gleaned{number: g.last, gaps: g.gaps}
	g.files[c.Path] = f
	old := g.see(c.Path)
	if old {
		if err := g.tree.unlink(c.Path); err != nil {
			return err
		}
	}
	if !g.begins(c) {
		f.lost = true
		g.losses.add(c.Path, cause{offset: -1, reason: "its beginning is lost"})
		if c.Type == xbstream.TypeEnd {
			delete(g.files, c.Path)
		}
		return nil
	}
	return g.put(c, f)
}

// put does what the chunk says to an open file.
func (g *gleaner) put(c *xbstream.Chunk, f *gleaned) error {
	here := *c
	here.File = f.number
	if g.gaps > 0 {
		g.run[c.Path] = struct{}{}
	}
	if !continues(g.open[f.number], c) { // behind a gap no checker sees to it
		return g.lose(c.Path, f, cause{offset: -1, reason: "its parts don't fit together"})
	}
	there, err := g.file(&here, c.Path)
	if err != nil {
		return err
	}
	there.follow(c)
	if c.Type == xbstream.TypeEnd {
		delete(g.files, c.Path)
		g.losses.found(c.Path)
	}
	return g.chunk(&here, there)
}

// move renames or removes what has ended.
func (g *gleaner) move(c *xbstream.Chunk) error {
	if f := g.files[c.Path]; f != nil && !f.lost {
		if err := g.lose(c.Path, f, cause{offset: -1, reason: "it is moved behind the damage, and had no end"}); err != nil {
			return err
		}
	}
	delete(g.files, c.Path)
	why, lost := g.losses.files[c.Path]
	g.losses.found(c.Path)
	if c.Type == xbstream.TypeRemove {
		return g.tree.remove(c.Path)
	}
	g.see(c.NewPath)
	if !lost {
		g.losses.found(c.NewPath)
		return g.tree.rename(c.Path, c.NewPath)
	}
	g.losses.add(c.NewPath, why) // what is lost is so under its new name
	return g.tree.unlink(c.NewPath)
}
