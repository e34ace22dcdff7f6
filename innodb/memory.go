package innodb

import "math/bits"

// maxHeld bounds what a Checker holds of pages that were cut: enough for a thousand files at once whose pages are of the
// largest size. The tool opens one for each of its threads.
const maxHeld = 64 << 20

// spare is how many buffers of each size are kept for the next page.
const spare = 4

// A memory hands out buffers and counts them. Sizes are powers of two.
type memory struct {
	limit, held int
	free        [18][][]byte // by the exponent
}

// take returns a buffer of length 0 and of capacity size, or nil when the limit is reached.
func (m *memory) take(size int) []byte {
	if m.held+size > m.limit {
		return nil
	}
	m.held += size
	class := &m.free[bits.Len(uint(size))-1]
	if n := len(*class); n > 0 {
		b := (*class)[n-1]
		*class = (*class)[:n-1]
		return b
	}
	return make([]byte, 0, size)
}

// give takes back what take returned. nil is no buffer and is ignored.
func (m *memory) give(b []byte) {
	if b == nil {
		return
	}
	m.held -= cap(b)
	class := &m.free[bits.Len(uint(cap(b)))-1]
	if len(*class) < spare {
		*class = append(*class, b[:0])
	}
}
