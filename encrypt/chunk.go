package encrypt

import (
	"errors"
	"io"

	"golang.org/x/crypto/chacha20poly1305"
)

// span returns a buffer of n bytes, which goes back to p.spans.
func (p *Plain) span(n int) *[]byte {
	span, _ := p.spans.Get().(*[]byte)
	if span == nil || cap(*span) < n {
		fresh := make([]byte, n)
		return &fresh
	}
	*span = (*span)[:n]
	return span
}

// openChunk decrypts the n-th chunk and copies to b what it holds from offset off of the plaintext on: at least a byte,
// or there is an error. stored may be overwritten.
func (p *Plain) openChunk(b []byte, off, n int64, stored []byte) (int, error) {
	skip := int(off - n*chunkSize)
	size := len(stored) - chacha20poly1305.Overhead
	if skip >= size {
		return 0, p.damage(n, io.ErrUnexpectedEOF)
	}
	if skip == 0 && size <= len(b) { // all of it: no copy
		if err := p.decrypt(b[:0:size], n, stored); err != nil {
			return 0, err
		}
		return size, nil
	}
	ends := skip+len(b) < size // inside of this chunk: more of it will be wanted
	data := stored[:size]
	if ends || !p.sound { // who opens in place can't try twice
		data = make([]byte, size)
	}
	if err := p.decrypt(data[:0], n, stored); err != nil {
		return 0, err
	}
	if ends {
		p.recent.Store(&recent{n, data})
	}
	return copy(b, data[skip:]), nil
}

// decrypt opens the n-th chunk into dst, which has room for it. Where the end is proven only the last chunk by the
// file's size may be marked as the last; in a damaged file the mark can stand anywhere.
func (p *Plain) decrypt(dst []byte, n int64, stored []byte) error {
	last := (n+1)*storedSize >= p.stored
	if p.sound {
		if _, err := p.aead.Open(dst, chunkNonce(n, last), stored, nil); err != nil {
			return p.damage(n, nil)
		}
		return nil
	}
	if _, err := p.aead.Open(dst, chunkNonce(n, false), stored, nil); err == nil {
		return nil
	}
	if _, err := p.aead.Open(dst, chunkNonce(n, true), stored, nil); err != nil {
		return p.damage(n, nil)
	}
	return nil
}

// damage says that the n-th chunk is not what was written.
func (p *Plain) damage(n int64, cause error) error {
	return damaged(cause, "the chunk at stored offset %d, bytes %d to %d of the plaintext", p.payload+n*storedSize,
		n*chunkSize, min((n+1)*chunkSize, p.size))
}

// missing says why the n-th chunk could not be read: err is that of the source.
func (p *Plain) missing(n int64, err error) error {
	if _, failed := errors.AsType[*sourceError](err); failed {
		return explain(err, "")
	}
	return p.damage(n, io.ErrUnexpectedEOF)
}

// readFullAt fills b from at. That the source ends before is io.ErrUnexpectedEOF.
func readFullAt(at io.ReaderAt, b []byte, off int64) error {
	n, err := at.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil, errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// front is a source whose first bytes are read once: the header is looked at several times.
type front struct {
	source
	head []byte
}

func newFront(src source, size int64) (*front, error) {
	f := &front{source: src, head: make([]byte, min(size, headCache))}
	if err := readFullAt(src, f.head, 0); err != nil {
		return nil, explain(err, "it is shorter than said")
	}
	return f, nil
}

func (f *front) ReadAt(b []byte, off int64) (int, error) {
	if off >= 0 && off < int64(len(f.head)) {
		n := copy(b, f.head[off:])
		if n == len(b) {
			return n, nil
		}
		more, err := f.source.ReadAt(b[n:], off+int64(n))
		return n + more, err
	}
	return f.source.ReadAt(b, off)
}
