package xbstream

import (
	"fmt"
	"hash/crc32"
	"io"
)

// chunkSize is the largest payload that WriteFile makes.
const chunkSize = 1 << 20

// A Writer writes a stream. [Writer.WriteHeader] begins a chunk and Write supplies its payload. A Writer refuses what a
// [Reader] would: it cannot make a stream that breaks a rule and not say so. It belongs to one goroutine at a time.
type Writer struct {
	stream
	dst    io.Writer
	buf    []byte // a head
	chunk  []byte // a payload of WriteFile
	err    error  // sticks
	closed bool
}

// NewWriter returns a Writer of a stream to dst. It writes nothing yet.
func NewWriter(dst io.Writer) *Writer {
	return &Writer{stream: newStream(0, false), dst: dst}
}

// WriteHeader begins a chunk, after the payload of the one before was written in full. A payload's checksum stands before
// it, so h.CRC must be right: the payload is checked against it as it is written. A header that breaks a rule is refused
// with an *[Error] and nothing is written. The first error sticks.
func (w *Writer) WriteHeader(h *Header) error {
	if err := w.usable(); err != nil {
		return err
	}
	w.err = w.writeHeader(h)
	return w.err
}

// Write writes payload of the current chunk. More than the header's Size is [ErrUsage], after what fits was written. With
// the last byte the checksum is compared; if it is wrong the stream is spoiled and the error says so.
func (w *Writer) Write(p []byte) (int, error) {
	if err := w.usable(); err != nil {
		return 0, err
	}
	fits := min(int64(len(p)), w.left)
	n, err := w.write(p[:fits])
	if err == nil && n < len(p) {
		err = fmt.Errorf("%w: more payload for %q than its header says", ErrUsage, w.cur.Path)
	}
	w.err = err
	return n, err
}

// WriteFile writes a whole file: what src holds, in chunks of at most 1 MiB, and the end. It returns how many bytes of src
// it wrote. An error of src leaves the file without an end.
func (w *Writer) WriteFile(path string, src io.Reader) (int64, error) {
	if w.chunk == nil {
		w.chunk = make([]byte, chunkSize)
	}
	for pos := int64(0); ; {
		n, err := io.ReadFull(src, w.chunk)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return pos, fmt.Errorf("read %q: %w", path, err)
		}
		if n > 0 {
			if err := w.writePayload(path, pos, w.chunk[:n]); err != nil {
				return pos, err
			}
			pos += int64(n)
		}
		if err != nil {
			return pos, w.WriteHeader(&Header{Type: TypeEnd, Path: path})
		}
	}
}

// Close ends the stream: every payload must be whole and every file ended, and there must be one. It doesn't close what
// the stream was written to, and may be called again.
func (w *Writer) Close() error {
	if w.closed || w.err != nil {
		return w.err
	}
	w.closed = true
	w.err = w.finish(nil, ExpectAny)
	return w.err
}

func (w *Writer) usable() error {
	if w.err == nil && w.closed {
		return errWriteClosed
	}
	return w.err
}

func (w *Writer) writePayload(path string, pos int64, p []byte) error {
	h := Header{Type: TypePayload, Path: path, Offset: pos, Size: int64(len(p)), CRC: crc32.ChecksumIEEE(p)}
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err := w.Write(p)
	return err
}

// writeHeader encodes the header and judges the result as a Reader would.
func (w *Writer) writeHeader(h *Header) error {
	if w.left > 0 {
		return fmt.Errorf("%w: %d bytes of payload of %q are missing", ErrUsage, w.left, w.cur.Path)
	}
	w.buf = h.append(w.buf[:0])
	var parsed head
	n, fault := parsed.parse(w.buf, true)
	if fault != nil {
		return w.place(fault)
	}
	if n != len(w.buf) || parsed.size != h.Size {
		return fmt.Errorf("%w: a %v chunk of %q cannot have these fields", ErrUsage, h.Type, h.Path)
	}
	if err := w.begin(&parsed); err != nil {
		return err
	}
	if w.left == 0 {
		if err := w.end(); err != nil {
			return err
		}
	}
	if _, err := w.send(w.buf); err != nil {
		return fmt.Errorf("write chunk head of %q: %w", h.Path, err)
	}
	return nil
}

// send writes all of p or returns an error.
func (w *Writer) send(p []byte) (int, error) {
	n, err := w.dst.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

func (w *Writer) write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := w.send(p)
	w.data(p[:n])
	if err != nil {
		return n, fmt.Errorf("write payload of %q: %w", w.cur.Path, err)
	}
	if w.left > 0 {
		return n, nil
	}
	return n, w.end()
}
