package xbstream

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A Reader reads a stream chunk by chunk. [Reader.Next] goes to the next chunk and returns its head; the Reader is then
// the io.Reader of that chunk's payload. It reads no further than it must, in small pieces between payloads: give it a
// bufio.Reader if the source minds. A Reader belongs to one goroutine at a time.
type Reader struct {
	stream
	src     io.Reader
	head    []byte // bytes read of the next head
	scratch []byte // for payload that is skipped
	err     error  // sticks
}

// NewReader returns a Reader of the stream in src. It reads nothing yet.
func NewReader(src io.Reader) *Reader {
	return &Reader{stream: newStream(0, false), src: src}
}

// Next goes to the next chunk, past what is left of the payload of the current one, which is still checked. It skips
// ignorable chunks of unknown type. At the end of a stream that broke no rule it returns io.EOF; it does not know which
// files a backup must have, a [Checker] does. The first error sticks. The Header belongs to the caller.
func (r *Reader) Next() (*Header, error) {
	if r.err != nil {
		return nil, r.err
	}
	h, err := r.next()
	r.err = err
	return h, err
}

// Read reads payload of the current chunk. At its end, and in a chunk without payload, it returns io.EOF, but if the
// checksum is wrong an *[Error] in its place, once the last byte was read.
func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.read(p)
	r.err = err
	return n, err
}

// Stats returns the counts so far.
func (r *Reader) Stats() Stats { return r.snapshot() }

func (r *Reader) next() (*Header, error) {
	for {
		if err := r.skipPayload(); err != nil {
			return nil, err
		}
		if err := r.readHead(); err != nil {
			return nil, err
		}
		if r.left == 0 {
			if err := r.end(); err != nil {
				return nil, err
			}
		}
		if !r.skip {
			h := r.cur.Header
			h.Extents = slices.Clone(h.Extents)
			return &h, nil
		}
	}
}

func (r *Reader) skipPayload() error {
	if r.left > 0 && r.scratch == nil {
		r.scratch = make([]byte, 32<<10)
	}
	for r.left > 0 {
		if _, err := r.read(r.scratch); err != nil {
			return err
		}
	}
	return nil
}

// read reads payload, of which there must be some.
func (r *Reader) read(p []byte) (int, error) {
	if int64(len(p)) > r.left {
		p = p[:r.left]
	}
	n, err := r.src.Read(p)
	r.data(p[:n])
	switch {
	case err != nil && err != io.EOF:
		return n, r.sourceError(err)
	case r.left == 0:
		return n, r.end()
	case err == io.EOF:
		return n, r.finish(nil, ExpectAny)
	}
	return n, nil
}

// readHead reads the head of the next chunk and begins it. It returns io.EOF at a legal end of the stream.
func (r *Reader) readHead() error {
	var h head
	for ended := false; ; {
		need, fault := h.parse(r.head, ended)
		switch {
		case fault != nil:
			return r.place(fault)
		case need <= len(r.head):
			err := r.begin(&h)
			// Behind a seek there may be bytes of the next head.
			r.head = r.head[:copy(r.head, r.head[need:])]
			return err
		case ended:
			return cmp.Or(r.finish(r.head, ExpectAny), io.EOF)
		}
		var err error
		if ended, err = r.fill(need); err != nil {
			return err
		}
	}
}

// fill reads until there are need bytes of the head. It reports whether the source ended before.
func (r *Reader) fill(need int) (bool, error) {
	have := len(r.head)
	r.head = slices.Grow(r.head, min(need-have, 64<<10))
	n, err := io.ReadFull(r.src, r.head[have:min(need, cap(r.head))])
	r.head = r.head[:have+n]
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true, nil
	}
	if err != nil {
		return false, r.sourceError(err)
	}
	return false, nil
}

func (r *Reader) sourceError(err error) error {
	return fmt.Errorf("read stream at offset %d: %w", r.pos+int64(len(r.head)), err)
}
