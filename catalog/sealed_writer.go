package catalog

import (
	"context"
	"errors"
	"io"

	"github.com/mbwrap/mbwrap/pipeline"
)

// sealedWriter seals what is written to it, as one age file. Sealing happens in the caller's goroutine, hashing and
// writing what comes out in another, so that the two overlap; between them stand a few large pieces.
type sealedWriter struct {
	object *objectWriter
	age    io.WriteCloser
	pieces *pieces
	err    error // the first one: it sticks
	ended  bool
}

// createSealed is create for an object that is sealed with the backup's key. Close or Abort must be called.
func (p *Pending) createSealed(ctx context.Context, name string, done func(Object)) (*sealedWriter, error) {
	object, err := p.create(ctx, name, done)
	if err != nil {
		return nil, err
	}
	w := &sealedWriter{object: object, pieces: startPieces(object)}
	if w.age, err = p.key.Seal(w.pieces); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return w, nil
}

// Write seals data. An error may be that of what was written before.
func (w *sealedWriter) Write(data []byte) (n int, err error) {
	if w.err == nil {
		n, w.err = w.age.Write(data)
	}
	return n, w.err
}

// Close ends the age file and commits the object.
func (w *sealedWriter) Close() error {
	if w.ended {
		return w.err
	}
	w.ended = true
	if w.err == nil {
		w.err = w.age.Close()
	}
	w.err = errors.Join(w.err, w.pieces.end(w.err == nil))
	if w.err != nil {
		w.err = errors.Join(w.err, w.object.Abort())
		return w.err
	}
	w.err = w.object.Close()
	return w.err
}

// Abort gives the object up.
func (w *sealedWriter) Abort() error {
	if !w.ended {
		w.ended = true
		w.pieces.end(false) // its error was told, or does not matter any more
	}
	return w.object.Abort()
}

// What stands between sealing and writing: so many pieces of this size in bytes. age writes 64 KiB at a time.
const (
	pieceSize  = 1 << 20
	pieceCount = 3
)

// pieces collects what is written to it in large pieces and hands them to a goroutine that writes them.
type pieces struct {
	dst     io.Writer
	current []byte
	full    chan []byte
	free    chan []byte
	failed  chan struct{} // closed when err is set
	done    chan struct{} // closed when the goroutine has ended
	err     error
}

// startPieces begins to write to dst. end must be called.
func startPieces(dst io.Writer) *pieces {
	p := &pieces{dst: dst, full: make(chan []byte, pieceCount), free: make(chan []byte, pieceCount),
		failed: make(chan struct{}), done: make(chan struct{})}
	for range pieceCount - 1 {
		p.free <- nil // small objects never need whole pieces
	}
	go p.run()
	return p
}

// run writes pieces until there are no more, and gives them back. After an error it only gives them back.
func (p *pieces) run() {
	defer close(p.done)
	for piece := range p.full {
		if p.err == nil {
			if _, p.err = p.dst.Write(piece); p.err != nil {
				close(p.failed)
			}
		}
		p.free <- piece[:0] // never blocks: there are as many places as pieces
	}
}

// Write takes data. The error is that of an earlier piece.
func (p *pieces) Write(data []byte) (int, error) {
	select {
	case <-p.failed:
		return 0, p.err
	default:
	}
	p.current = append(p.current, data...)
	if len(p.current) < pieceSize {
		return len(data), nil
	}
	p.full <- p.current // never blocks: likewise
	p.current = <-p.free
	return len(data), nil
}

// end waits until everything is written, with what was not handed over yet if flush says so, and returns the first error.
func (p *pieces) end(flush bool) error {
	if flush && len(p.current) > 0 {
		p.full <- p.current
	}
	close(p.full)
	<-p.done
	return p.err
}

// sealedVolume is a pipeline.Volume.
var _ pipeline.Volume = (*sealedWriter)(nil)
