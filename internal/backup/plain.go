package backup

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/sinks"
)

// RunPlain writes the stream, compressed, to w: the last stages of a shell pipeline in one process. No repository knows
// of it. The Result's manifest describes what was written; its volumes are empty.
//
// What has been written to w when an error is returned must not be used: only the error tells a whole stream from a
// part of one.
func RunPlain(ctx context.Context, w io.Writer, o Options) (*Result, error) {
	return runPlain(ctx, plainVolume{w}, o)
}

// RunFile writes the stream, compressed, to the object called name. It appears only when the stream was proven to be
// whole.
func RunFile(ctx context.Context, sink sinks.Sink, name string, o Options) (*Result, error) {
	w, err := sink.Create(ctx, name)
	if err != nil {
		return nil, &SinkError{err}
	}
	result, err := runPlain(ctx, plainVolume{w}, o)
	if err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	if err := w.Commit(); err != nil {
		return nil, &SinkError{err}
	}
	return result, nil
}

func runPlain(ctx context.Context, dst pipeline.Volumes, o Options) (*Result, error) {
	o.VolumeSize = 0
	r, err := newRun(o)
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
	m.StoredBytes = r.packed.StoredSize
	r.times(m)
	result := &Result{Manifest: m, Details: r.details, Elapsed: time.Since(r.started)}
	if reporter, ok := r.source.(Reporter); ok {
		result.Phases = reporter.Report().Phases
	}
	return result, nil
}

// plainVolume is the only volume of a plain stream. The writer belongs to the caller.
type plainVolume struct{ io.Writer }

// SinkError says that the destination of a plain stream failed.
type SinkError struct{ Err error }

func (e *SinkError) Error() string { return "write: " + e.Err.Error() }
func (e *SinkError) Unwrap() error { return e.Err }

func (v plainVolume) Open(int) (pipeline.Volume, error) { return v, nil }
func (v plainVolume) Close() error                      { return nil }
func (v plainVolume) Abort() error                      { return nil }

func (v plainVolume) Write(p []byte) (int, error) {
	n, err := v.Writer.Write(p)
	if err != nil {
		err = &SinkError{err}
	}
	return n, err
}
