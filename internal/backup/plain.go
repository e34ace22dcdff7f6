package backup

import (
	"context"
	"errors"
	"io"

	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/sinks"
)

// RunPlain writes the stream, compressed, to w: the last stages of a shell pipeline in one process. With recipients it is
// one age file to them. No repository knows of it. The Result's manifest describes what was written; its volumes are
// empty.
//
// What has been written to w when an error is returned must not be used: only the error tells a whole stream from a part
// of one. An age file tells too: its last chunk is written when the stream was proven to be whole, and without it age
// refuses the file.
func RunPlain(ctx context.Context, w io.Writer, o Options) (*Result, error) {
	o.VolumeSize = 0
	r, err := newRun(o)
	if err != nil {
		return nil, err
	}
	dst, err := newPlain(w, o.Recipients)
	if err != nil {
		return nil, err
	}
	r.options.OnPhase("backup")
	if err := r.stream(ctx, dst); err != nil {
		return nil, err
	}
	m, err := r.judge()
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := dst.finish(); err != nil {
		return nil, err
	}
	m.StoredBytes = dst.written
	r.times(m)
	return r.result(m), nil
}

// RunFile does what RunPlain does into the object called name. It appears only when the stream was proven to be whole.
func RunFile(ctx context.Context, sink sinks.Sink, name string, o Options) (*Result, error) {
	w, err := sink.Create(ctx, name)
	if err != nil {
		return nil, &SinkError{err}
	}
	result, err := RunPlain(ctx, w, o)
	if err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	if err := w.Commit(); err != nil {
		return nil, &SinkError{err}
	}
	return result, nil
}

// SinkError says that the destination of a plain stream failed.
type SinkError struct{ Err error }

func (e *SinkError) Error() string { return "write: " + e.Err.Error() }
func (e *SinkError) Unwrap() error { return e.Err }

// plainVolume is the only volume of a plain stream. The writer that it ends up in belongs to the caller.
type plainVolume struct {
	dst     io.Writer
	out     io.Writer      // what the volume is written to: this, or sealer
	sealer  io.WriteCloser // nil when the stream is not encrypted
	head    []byte         // of the age file, until the first block comes
	opened  bool
	written int64 // bytes that dst took
}

// newPlain returns the volume. Recipients that can't be sealed to are found here, before a source starts, and nothing is
// written to w before there is something to write.
func newPlain(w io.Writer, to *encrypt.Recipients) (*plainVolume, error) {
	p := &plainVolume{dst: w}
	p.out = destination{p}
	if to == nil {
		return p, nil
	}
	var err error
	if p.sealer, err = to.Seal(destination{p}); err != nil {
		return nil, err
	}
	p.out = p.sealer
	return p, nil
}

// Open is asked for the first volume only.
func (p *plainVolume) Open(int) (pipeline.Volume, error) {
	p.opened = true
	if len(p.head) == 0 {
		return p, nil
	}
	_, err := destination{p}.Write(p.head)
	p.head = nil
	return p, err
}

func (p *plainVolume) Write(b []byte) (int, error) { return p.out.Write(b) }

// Close ends nothing: all blocks are written, but whether they are a backup is not known yet.
func (p *plainVolume) Close() error { return nil }
func (p *plainVolume) Abort() error { return nil }

// finish ends the age file.
func (p *plainVolume) finish() error {
	if p.sealer == nil {
		return nil
	}
	return p.sealer.Close()
}

// destination is the last writer before the caller's. It keeps what comes before the volume is opened.
type destination struct{ *plainVolume }

func (d destination) Write(b []byte) (int, error) {
	if !d.opened {
		d.head = append(d.head, b...)
		return len(b), nil
	}
	n, err := d.dst.Write(b)
	d.written += int64(n)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		err = &SinkError{err}
	}
	return n, err
}
