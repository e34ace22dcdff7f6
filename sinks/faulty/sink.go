package faulty

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/mbwrap/mbwrap/sinks"
)

// sink is the wrapper of what every sink has.
type sink struct {
	faults *Faults
	inner  sinks.Sink
}

// run is one call of an operation without bytes.
func (s *sink) run(ctx context.Context, c call, do func() error) error {
	for _, h := range s.faults.next(c) {
		if err := h.wait(ctx); err != nil {
			return err
		}
		err := h.failure(c)
		if err == nil {
			continue
		}
		if h.Late {
			return errors.Join(do(), err)
		}
		return err
	}
	return do()
}

func (s *sink) Create(ctx context.Context, name string) (sinks.Writer, error) {
	var w sinks.Writer
	err := s.run(ctx, call{op: Create, name: name}, func() (err error) {
		w, err = s.inner.Create(ctx, name)
		return err
	})
	if err != nil {
		if w != nil { // late
			err = errors.Join(err, w.Abort())
		}
		return nil, err
	}
	return &writer{sink: s, ctx: ctx, name: name, inner: w}, nil
}

func (s *sink) Open(ctx context.Context, name string) (sinks.Object, error) {
	var o sinks.Object
	err := s.run(ctx, call{op: Open, name: name}, func() (err error) {
		o, err = s.inner.Open(ctx, name)
		return err
	})
	if err != nil {
		if o != nil { // late
			err = errors.Join(err, o.Close())
		}
		return nil, err
	}
	return &object{sink: s, ctx: ctx, name: name, inner: o}, nil
}

func (s *sink) List(ctx context.Context, prefix string) (infos []sinks.Info, err error) {
	err = s.run(ctx, call{op: List, name: prefix}, func() (err error) {
		infos, err = s.inner.List(ctx, prefix)
		return err
	})
	return infos, err
}

func (s *sink) Remove(ctx context.Context, name string) error {
	return s.run(ctx, call{op: Remove, name: name}, func() error { return s.inner.Remove(ctx, name) })
}

// writer is the wrapper of a Writer.
type writer struct {
	sink   *sink
	ctx    context.Context
	name   string
	inner  sinks.Writer
	offset int64
	err    error
	ended  bool
}

func (w *writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	c := call{op: Write, name: w.name, offset: w.offset, size: len(p), ranged: true, written: true}
	n, err := w.write(c, p)
	w.offset += int64(n)
	w.err = err
	return n, err
}

func (w *writer) write(c call, p []byte) (int, error) {
	for _, h := range w.sink.faults.next(c) {
		if err := h.wait(w.ctx); err != nil {
			return 0, err
		}
		if h.Flip != 0 {
			p = bytes.Clone(p)
			p[h.pass] ^= h.Flip
		}
		err := h.failure(c)
		if err != nil || h.Short {
			n, werr := w.inner.Write(p[:h.pass])
			return n, errors.Join(err, werr)
		}
	}
	return w.inner.Write(p)
}

func (w *writer) Commit() error {
	if w.ended {
		return w.err
	}
	w.ended = true
	if w.err == nil {
		w.err = w.sink.run(w.ctx, call{op: Commit, name: w.name}, w.inner.Commit)
	}
	if w.err != nil {
		w.err = errors.Join(w.err, w.inner.Abort())
	}
	return w.err
}

func (w *writer) Abort() error {
	err := w.inner.Abort()
	if w.ended {
		return err
	}
	w.ended = true
	if w.err == nil {
		w.err = errAborted
	}
	return errors.Join(err, w.sink.run(w.ctx, call{op: Abort, name: w.name}, func() error { return nil }))
}

var errAborted = errors.New("write aborted")

// object is the wrapper of an Object.
type object struct {
	sink  *sink
	ctx   context.Context
	name  string
	inner sinks.Object
}

func (o *object) Size() int64 { return o.inner.Size() }

func (o *object) ReadAt(p []byte, offset int64) (int, error) {
	c := call{op: ReadAt, name: o.name, offset: offset, size: len(p), ranged: true}
	flip := func(int) {}
	for _, h := range o.sink.faults.next(c) {
		if err := h.wait(o.ctx); err != nil {
			return 0, err
		}
		if h.Flip != 0 {
			flip = func(n int) {
				if h.pass < n {
					p[h.pass] ^= h.Flip
				}
			}
		}
		err := h.failure(c)
		if err == nil && h.Short {
			err = io.EOF
		}
		if err != nil {
			n, rerr := o.inner.ReadAt(p[:h.pass], offset)
			if rerr != nil {
				err = rerr
			}
			return n, err
		}
	}
	n, err := o.inner.ReadAt(p, offset)
	flip(n)
	return n, err
}

func (o *object) Close() error {
	err := o.inner.Close()
	return errors.Join(err, o.sink.run(o.ctx, call{op: CloseObject, name: o.name}, func() error { return nil }))
}
