package xbstream

import "fmt"

// A Handler is shown what a [Checker] finds. It is called from within Write and Close, on the caller's goroutine. An error
// it returns ends the check and comes out of Write, wrapped in an [Error] of [KindHandler] with the chunk's place.
type Handler interface {
	// Chunk is called when the head of a chunk is complete and legal, and before its payload. c and what it points to
	// are valid during the call only, its strings for ever. Skipped chunks of unknown type are not shown.
	Chunk(c *Chunk) error
	// Data is called with the next piece of the payload of the last chunk: a part of what was handed to Write, valid
	// during the call only and not to be changed. The payload's checksum is not known yet: a wrong one is found after the
	// last piece.
	Data(p []byte) error
}

// Options of a [Checker].
type Options struct {
	Handler Handler // may be nil
	Base    int64   // stream offset of the first byte that will be written
	// Fragment says that the input is a run of whole chunks cut out of a stream. Heads, paths and checksums are checked
	// and it must end at the border of a chunk; the order of payloads, repeated paths, missing ends and Expect are not
	// looked at, and Chunk.File is -1.
	Fragment bool
	Expect   Expect
}

// A Checker checks a stream that is written to it, in pieces of any size, and shows its [Handler] what it finds. It keeps
// no reference to what it is handed, copies no payload, and allocates per file, not per chunk. A Checker belongs to one
// goroutine at a time.
type Checker struct {
	stream
	handler Handler
	expect  Expect
	head    []byte // the first bytes of a head, when it lies across a border between two writes
	err     error  // sticks
	closed  bool
}

// NewChecker returns a Checker of one stream.
func NewChecker(o Options) *Checker {
	return &Checker{stream: newStream(o.Base, o.Fragment), handler: o.Handler, expect: o.Expect}
}

// Write checks the next piece of the stream. It takes all of p or returns an *[Error]; the count then says how much of p was
// taken. The first error sticks. Writing after Close is [ErrUsage].
func (c *Checker) Write(p []byte) (int, error) {
	if c.err == nil && c.closed {
		return 0, errWriteClosed
	}
	total := len(p)
	for len(p) > 0 && c.err == nil {
		var n int
		if c.left > 0 {
			n, c.err = c.writeData(p)
		} else {
			n, c.err = c.writeHead(p)
		}
		p = p[n:]
	}
	return total - len(p), c.err
}

var errWriteClosed = fmt.Errorf("%w: write after close", ErrUsage)

// Close says that the stream ends here, and judges that. It may be called again and returns the same.
func (c *Checker) Close() error {
	if c.closed || c.err != nil {
		return c.err
	}
	c.closed = true
	if len(c.head) > 0 {
		c.err = c.lastSeek()
	}
	if c.err == nil {
		c.err = c.finish(c.head, c.expect)
	}
	return c.err
}

// Stats returns the counts so far.
func (c *Checker) Stats() Stats { return c.snapshot() }

func (c *Checker) writeData(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	c.data(p)
	if c.handler != nil && !c.skip {
		if err := c.handler.Data(p); err != nil {
			return len(p), c.handlerError(err)
		}
	}
	if c.left > 0 {
		return len(p), nil
	}
	return len(p), c.end()
}

// writeHead takes bytes from p until a head is complete or p is used up. A head that lies within p is parsed in place.
func (c *Checker) writeHead(p []byte) (int, error) {
	if len(c.head) > 0 {
		return c.gatherHead(p)
	}
	var h head
	need, err := h.parse(p, false)
	if err != nil {
		return 0, c.place(err)
	}
	if need > len(p) {
		c.head = append(c.head, p...)
		return len(p), nil
	}
	return need, c.beginChunk(&h)
}

// gatherHead goes on with a head whose first bytes came with an earlier write.
func (c *Checker) gatherHead(p []byte) (int, error) {
	used := 0
	for {
		var h head
		need, err := h.parse(c.head, false)
		if err != nil {
			return used, c.place(err)
		}
		if need <= len(c.head) {
			err := c.beginChunk(&h)
			// Behind a seek there may be bytes of the next head.
			c.head = c.head[:copy(c.head, c.head[need:])]
			return used, err
		}
		n := min(need-len(c.head), len(p)-used)
		if n == 0 {
			return used, nil
		}
		c.head = append(c.head, p[used:used+n]...)
		used += n
	}
}

// lastSeek handles a seek at the very end of the stream: before, it could have been the beginning of a sparse chunk.
func (c *Checker) lastSeek() error {
	var h head
	need, err := h.parse(c.head, true)
	if err != nil {
		return c.place(err)
	}
	if need > len(c.head) {
		return nil
	}
	c.head = c.head[:0]
	return c.beginChunk(&h)
}

func (c *Checker) beginChunk(h *head) error {
	if err := c.begin(h); err != nil {
		return err
	}
	if c.handler != nil && !c.skip {
		if err := c.handler.Chunk(&c.cur); err != nil {
			return c.handlerError(err)
		}
	}
	if c.left > 0 {
		return nil
	}
	return c.end()
}

func (c *Checker) handlerError(err error) error {
	return &Error{Kind: KindHandler, Offset: c.cur.Start, Path: c.cur.Path, Err: err}
}
