package codec

import (
	"errors"
	"fmt"
	"io"
)

// NewReader returns a reader of the data of a whole file: any number of frames, at least one, one after the other, as
// this package or any program of the format wrote them. Checksums are checked where the format has them. A file that
// stops anywhere but at the end of a frame gives an error that matches io.ErrUnexpectedEOF and [ErrCorrupt], one that
// goes on with anything else than a frame gives an error that matches [ErrCorrupt]; both come instead of io.EOF, after
// the data before them. Errors of r come through unchanged in their chain. The first error sticks.
//
// Memory is bounded: zstd frames whose window is larger than 128 MiB are refused. Reading begins with the first Read
// and takes place on the caller's goroutine. Close frees the memory, may be called again and does not close r.
//
// The reader of none passes r through and can detect nothing.
func (c *Codec) NewReader(r io.Reader) (io.ReadCloser, error) {
	src := &source{r: r}
	dec, err := c.newReader(src)
	if err != nil {
		return nil, fmt.Errorf("new %s reader: %w", c.name, err)
	}
	return &reader{codec: c, src: src, dec: dec}, nil
}

// source counts what is read from r, and keeps the error of r apart from those that a decoder makes.
type source struct {
	r   io.Reader
	n   int64
	err error // first error other than io.EOF
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	if err != nil && err != io.EOF && s.err == nil {
		s.err = err
	}
	return n, err
}

// reader is the policy around a decoder: stickiness and errors.
type reader struct {
	codec *Codec
	src   *source
	dec   io.ReadCloser // nil after Close
	err   error
}

func (r *reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.dec == nil {
		return 0, fmt.Errorf("%s reader: %w", r.codec.name, errClosed)
	}
	n, err := r.dec.Read(p)
	if err != nil {
		r.err = r.explain(err)
	}
	return n, r.err
}

// explain tells a failing source, an end and damage apart.
func (r *reader) explain(err error) error {
	switch {
	case r.src.err != nil:
		err = r.src.err
	case err == io.EOF && (r.src.n > 0 || r.codec.emptyIsNothing):
		return io.EOF
	case err == io.EOF:
		err = short("first frame: the file is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = short("last frame")
	case !errors.Is(err, ErrCorrupt):
		err = corrupt("%w", err)
	}
	return fmt.Errorf("read %s after %d stored bytes: %w", r.codec.name, r.src.n, err)
}

func (r *reader) Close() error {
	if r.dec == nil {
		return nil
	}
	err := r.dec.Close()
	r.dec = nil
	return err
}
