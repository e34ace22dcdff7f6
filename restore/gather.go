package restore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// gatherer makes the files of a plan out of blocks of which some are damaged. It follows the chunks of the index one by
// one and has each checked on its own, so that what is wrong with one says nothing about the next. A file of which any
// chunk is missing or wrong is lost as a whole, and taken away again if it was begun.
type gatherer struct {
	assembler
	plan   *plan
	losses *losses
	lost   map[int]struct{} // the files that are lost, by their number in the stream

	next    func() (*xbstream.Chunk, bool) // the chunks of the plan, in order
	chunk   xbstream.Chunk                 // the one that is to be read
	have    bool                           // there is one
	at      int64                          // offset in the stream up to which it has been read
	checker *xbstream.Checker              // of chunk; nil before its first byte
	fatal   error                          // an error of the handler that is not the stream's fault
}

// gather makes the files of a plan out of the intact blocks of a backup.
func (x *extraction) gather(ctx context.Context, b *catalog.Backup, p *plan, l *losses) (err error) {
	c, err := codec.Lookup(b.Manifest.Codec)
	if err != nil {
		return err
	}
	volumes := newRemains(ctx, b)
	defer func() { err = errors.Join(err, volumes.close()) }()
	t := newTree(x.root, x.writers, x.journal)
	chunks, stop := iter.Pull(p.chunks())
	defer stop()
	g := &gatherer{
		assembler: assembler{tree: t, open: make(map[int]*file)}, plan: p, losses: l, lost: make(map[int]struct{}), next: chunks,
	}
	err = pipeline.Unpack(ctx, pipeline.UnpackOptions{
		Codec: c, Jobs: x.jobs, Blocks: p.blocks(), Volume: volumes.at, Meter: x.meter,
		OnDamage: func(e *pipeline.BlockError) error {
			x.meter.Raw.Add(e.Block.RawSize) // they were to be counted, and are done with
			return g.damage(e)
		},
	}, g.emit)
	if err == nil {
		err = g.finish()
	}
	return endTree(t, err)
}

// more tells whether there is a chunk to be read that begins before the given offset of the stream.
func (g *gatherer) more(end int64) bool {
	if !g.have {
		c, more := g.next()
		if !more {
			return false
		}
		g.chunk, g.have, g.at = *c, true, c.Start
	}
	return g.chunk.Start < end
}

// chunkEnd returns the offset behind the chunk that is to be read.
func (g *gatherer) chunkEnd() int64 { return g.chunk.Data + g.chunk.Size }

// emit takes the next block.
func (g *gatherer) emit(raw *pipeline.Raw) error {
	defer raw.Release()
	end := raw.Offset + int64(len(raw.Data))
	for g.more(end) {
		if err := g.take(raw, min(g.chunkEnd(), end)); err != nil {
			return err
		}
		if g.chunkEnd() > end {
			return nil
		}
		if err := g.endChunk(); err != nil {
			return err
		}
	}
	return nil
}

// take has the part of the chunk that lies in raw, and ends at the given offset of the stream, checked and written.
func (g *gatherer) take(raw *pipeline.Raw, to int64) error {
	if _, lost := g.lost[g.chunk.File]; lost {
		return nil
	}
	if g.at < raw.Offset {
		return g.lose(g.chunk.File, cause{offset: g.at, reason: "no block holds this part of the stream"})
	}
	if g.checker == nil {
		g.checker = xbstream.NewChecker(xbstream.Options{Handler: g, Base: g.chunk.Start, Fragment: true})
	}
	from := g.at
	g.at = to
	return g.judge(g.tree.feed(raw, raw.Data[from-raw.Offset:to-raw.Offset], g.checker))
}

// endChunk judges the chunk, of which all has come unless its file is lost, and goes on to the next.
func (g *gatherer) endChunk() error {
	checker := g.checker
	g.have, g.checker, g.current = false, nil, nil
	if _, lost := g.lost[g.chunk.File]; lost || checker == nil {
		return nil
	}
	return g.judge(checker.Close())
}

// judge tells errors that end the restore from those of the stream, for which the chunk's file is lost.
func (g *gatherer) judge(err error) error {
	switch {
	case g.tree.failed() != nil:
		return g.tree.failed()
	case g.fatal != nil:
		return g.fatal
	case err != nil:
		return g.lose(g.chunk.File, cause{offset: g.chunk.Start, reason: err.Error()})
	}
	return nil
}

// lose gives up a file.
func (g *gatherer) lose(version int, why cause) error {
	g.lost[version] = struct{}{}
	g.losses.add(g.plan.paths[version], why)
	f := g.open[version]
	if f == nil {
		return nil
	}
	delete(g.open, version)
	return g.tree.drop(f)
}

// damage gives up the files that have a part in a damaged block.
func (g *gatherer) damage(e *pipeline.BlockError) error {
	end := e.Block.Raw + e.Block.RawSize
	for g.more(end) {
		if _, lost := g.lost[g.chunk.File]; !lost {
			if err := g.lose(g.chunk.File, cause{offset: e.Block.Raw, reason: e.Error()}); err != nil {
				return err
			}
		}
		if g.chunkEnd() > end {
			return nil
		}
		if err := g.endChunk(); err != nil {
			return err
		}
	}
	return nil
}

// finish gives up the files of which not everything has come. No index that describes its stream leaves any.
func (g *gatherer) finish() error {
	for g.more(g.plan.index.RawSize() + 1) {
		if _, lost := g.lost[g.chunk.File]; !lost {
			why := cause{offset: g.at, reason: "no block holds this part of the stream"}
			if err := g.lose(g.chunk.File, why); err != nil {
				return err
			}
		}
		g.have, g.checker = false, nil
	}
	for version := range g.open {
		if err := g.lose(version, cause{offset: g.plan.index.RawSize(), reason: "it has no end"}); err != nil {
			return err
		}
	}
	return nil
}

// Chunk compares the chunk with the index and does what it says.
func (g *gatherer) Chunk(c *xbstream.Chunk) error {
	g.current = nil
	want := &g.chunk
	if !sameChunk(c, want) {
		return fmt.Errorf("%w: %s of %q with %d bytes in the stream, %s of %q with %d bytes in the index",
			ErrMismatch, c.Type, c.Path, c.Size, want.Type, want.Path, want.Size)
	}
	here := *c
	here.File = want.File
	if f := g.open[here.File]; !continues(f, c) {
		return fmt.Errorf("%w: its payload goes on at offset %d of the file", xbstream.ErrOrder, c.Offset)
	}
	g.fatal = g.apply(&here)
	return g.fatal
}

// apply does what the chunk says. An error is no fault of the stream.
func (g *gatherer) apply(c *xbstream.Chunk) error {
	f, err := g.file(c, g.plan.paths[c.File])
	if err != nil {
		return err
	}
	f.follow(c)
	return g.assembler.chunk(c, f)
}

// Data takes the next piece of the payload.
func (g *gatherer) Data(p []byte) error {
	g.fatal = g.data(p)
	return g.fatal
}

// continues tells whether c goes on where its file, nil for a new one, has got to.
func continues(f *file, c *xbstream.Chunk) bool {
	var at int64
	if f != nil {
		at = f.next
	}
	switch c.Type {
	case xbstream.TypePayload, xbstream.TypeSparse:
		return c.Offset == at
	}
	return true
}

// follow notes where the next payload of f must go.
func (f *file) follow(c *xbstream.Chunk) {
	switch c.Type {
	case xbstream.TypePayload, xbstream.TypeSparse:
		f.next = c.Offset + c.Advance()
	case xbstream.TypeSeek:
		f.next = c.Offset
	}
}
