package restore

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// gleaner is an xbstream.Handler that makes the files of a damaged stream without an index. Up to the first damage it does
// what a follower does. Behind it, it looks for the next chunk and takes what it can prove to be whole:
//
//   - a file that begins behind the damage and ends before the next;
//   - a file that was open, if its next payload goes on exactly where it had got to.
//
// Nothing can be proven of a file whose next chunk is its end, or of which the beginning was not seen. Names of files that
// lie in the damage as a whole stay unknown, and so do renames, removes and newer versions; and the heads of chunks have no
// checksum but that of their frame, which a stream that is not compressed lacks, and which can't be waited for in a foreign
// stream that may be one frame. What is gleaned is never good enough for a
// data directory without a look.
type gleaner struct {
	follower
	losses *losses
	files  map[string]*gleaned // files that are open, by path
	last   int                 // number of the last file

	checker *xbstream.Checker   // nil: the next chunk is looked for
	gaps    int                 // places where the stream is damaged, so far
	tail    []byte              // the last bytes that were looked at for a chunk, fewer than a magic
	base    int64               // bytes of the parts that were read, decoded
	read    int64               // bytes of the part that is read, decoded
	run     map[string]struct{} // paths of which something came since the last gap
	path    string              // of the last chunk
	left    int64               // bytes of its payload that are still to come
	fatal   error
}

// gleaned is an open file.
type gleaned struct {
	number int
	gaps   int  // how many gaps there had been when its last proven payload came
	lost   bool // its other chunks are left out
}

func newGleaner(t *tree, expect xbstream.Expect, l *losses) *gleaner {
	g := &gleaner{follower: *newFollower(t), losses: l, files: make(map[string]*gleaned)}
	g.checker = xbstream.NewChecker(xbstream.Options{Handler: g, Expect: expect})
	return g
}

// glean makes the files of parts of a stream, of which each begins with a whole frame.
func (x *extraction) glean(ctx context.Context, parts []part, l *losses) error {
	t := newTree(x.root, x.writers, x.journal)
	g := newGleaner(t, parts[0].expect, l)
	var err error
	for i := range parts {
		if err = x.gleanPart(ctx, g, &parts[i]); err != nil {
			break
		}
	}
	if err == nil {
		err = g.finish()
	}
	return endTree(t, err)
}

// part is a part of a stored stream that is read from front to back.
type part struct {
	name      string
	open      func() (io.ReadCloser, error) // decoded; an error that matches pipeline.ErrBlock says that nothing is left
	frame     int64                         // raw bytes that a frame has at most; 0 when unknown
	expect    xbstream.Expect
	interrupt func()
}

// volumeParts returns what is left of a backup's volumes.
func volumeParts(b *catalog.Backup, volumes remains) ([]part, error) {
	c, err := codec.Lookup(b.Manifest.Codec)
	if err != nil {
		return nil, err
	}
	var parts []part
	for i, v := range b.Manifest.Volumes {
		parts = append(parts, part{name: v.Name, frame: min(b.Manifest.BlockSize, pipeline.MaxBlockSize), open: func() (io.ReadCloser, error) {
			r, err := volumes.whole(i + 1)
			if err != nil {
				return nil, err
			}
			return c.NewReader(r)
		}})
	}
	return parts, nil
}

// gleanPart reads one part up to its end or to the first damage in it.
func (x *extraction) gleanPart(ctx context.Context, g *gleaner, p *part) (err error) {
	r, err := p.open()
	if err != nil {
		return g.gapUnlessFatal(p.name, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	until := &provenReader{r: r, hold: p.frame}
	g.base, g.read = g.base+g.read, 0
	err = pipeline.Feed(ctx, until, pipeline.FeedOptions{Meter: x.meter, Interrupt: p.interrupt}, g.emit)
	if err != nil {
		return err
	}
	if until.err != nil {
		return g.gapUnlessFatal(p.name, until.err)
	}
	return nil
}

// provenReader hands on what a decoder makes, but for the last bytes before its first error: they may be of a frame whose
// checksum is wrong, which is found at the frame's end only.
type provenReader struct {
	r    io.Reader
	hold int64 // raw bytes of the largest frame; 0: what comes can't be proven, and is handed on
	held bytes.Buffer
	end  bool
	err  error // why it ends; nil at the end of the part
}

const heldPiece = 256 << 10

func (p *provenReader) Read(b []byte) (int, error) {
	for !p.end && int64(p.held.Len()) <= p.hold {
		n, err := p.held.ReadFrom(io.LimitReader(p.r, heldPiece))
		switch {
		case err != nil:
			p.end, p.err = true, err
			p.held.Truncate(max(0, p.held.Len()-int(p.hold)))
		case n < heldPiece:
			p.end = true
		}
		if p.end {
			p.hold = 0
		}
	}
	if p.end && p.held.Len() == 0 {
		return 0, io.EOF
	}
	return p.held.Read(b[:min(int64(len(b)), int64(p.held.Len())-p.hold)])
}
