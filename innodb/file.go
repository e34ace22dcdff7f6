package innodb

// region is the step in which a file of unknown layout is searched: pages of every size begin at its multiples.
const region = maxPage

// A file is the state of one open file version.
type file struct {
	path   string
	kind   kind
	number int   // Chunk.File
	pos    int64 // in bytes: where the next payload belongs

	lay    layout
	known  bool  // lay holds; until then pages are searched, see search.go
	lost   bool  // nothing more can be judged
	start  int64 // system tablespace: page number at which this file begins
	judged bool  // a page got a verdict, or a delta said that nothing changed
	used   bool  // a byte other than zero was seen while the layout was searched

	part    []byte // the first bytes of a page that was cut, nil if there is none
	partRaw int64  // where they stand in the stream
	skipTo  int64  // bytes before this position are passed over

	win   *window // while the layout is searched
	delta *delta  // of kindDelta only
	lines []byte  // of kindMeta only: its text
}

// feed takes the next bytes of f, which stand at raw in the stream.
func (c *Checker) feed(f *file, raw int64, p []byte) {
	if f.kind == kindMeta {
		f.meta(p)
		return
	}
	c.stats.Bytes += int64(len(p))
	switch {
	case f.lost:
		f.pos += int64(len(p))
	case f.known:
		c.pages(f, raw, p)
	default:
		c.search(f, raw, p)
	}
}

// pages cuts p into pages and judges each. A page that lies whole in p is not copied.
func (c *Checker) pages(f *file, raw int64, p []byte) {
	size := f.lay.size
	for len(p) > 0 && !f.lost {
		n := 0
		switch {
		case f.skipTo > f.pos:
			n = int(min(f.skipTo-f.pos, int64(len(p))))
		case f.part != nil:
			n = min(size-len(f.part), len(p))
			f.part = append(f.part, p[:n]...)
		case f.pos%int64(size) != 0:
			c.passOver(f)
		case len(p) >= size:
			n = size
			c.page(f, raw, p[:size])
		default:
			if f.part = c.mem.take(size); f.part == nil {
				c.passOver(f)
			}
			f.partRaw = raw
		}
		f.pos += int64(n)
		raw += int64(n)
		p = p[n:]
		if len(f.part) == size {
			c.wholePart(f)
		}
	}
	f.pos += int64(len(p)) // of a file that was lost on the way
}

// wholePart judges a page that was put together. f.pos stands behind it.
func (c *Checker) wholePart(f *file) {
	part := f.part
	f.part = nil
	f.pos -= int64(len(part))
	c.page(f, f.partRaw, part)
	f.pos += int64(len(part))
	c.mem.give(part)
}

// passOver leaves the page at f.pos unchecked, of which not all is or can be seen.
func (c *Checker) passOver(f *file) {
	size := int64(f.lay.size)
	f.skipTo = f.pos - f.pos%size + size
	c.count(unchecked, 1)
	if f.kind == kindDelta {
		c.lose(f, "too many files were open at once")
	}
}

// page judges one whole page of f, which stands at f.pos.
func (c *Checker) page(f *file, raw int64, p []byte) {
	if f.kind == kindDelta {
		c.deltaPage(f, raw, p)
		return
	}
	no := f.pos / int64(f.lay.size)
	expect := no
	if f.kind == kindSystem {
		if f.lay.copies(f.start + no) {
			c.count(unchecked, 1)
			return
		}
		expect = anyNumber
		if f.start+no == 0 {
			expect = 0
		}
	}
	v, why := c.judge.page(f.lay, p, expect)
	if v == bad && f.kind == kindSystem && f.pos == 0 && blank(p[:26]) && blank(p[34:]) {
		v = empty // before 10.1.25 the flush LSN was written into the first page of each of its files, used or not
	}
	c.count(v, 1)
	f.judged = f.judged || v == sound || v == bad
	f.used = f.used || v != empty
	if v == bad {
		c.report(f, Page{Number: uint64(no), Offset: f.pos, RawOffset: raw}, why)
	}
}

// seek moves to offset off of the file. Nothing is known of what is jumped over: it may come later.
func (c *Checker) seek(f *file, off int64) {
	if off == f.pos {
		return
	}
	if f.kind == kindMeta || f.kind == kindDelta {
		c.lose(f, "it was not seen from its beginning in order")
	}
	if f.win != nil {
		c.settleRest(f)
	}
	if f.part != nil {
		c.count(unchecked, 1)
		c.mem.give(f.part)
		f.part = nil
	}
	f.pos, f.skipTo = off, 0
}

// hole passes over n bytes which the file does not store and which read as zero.
func (c *Checker) hole(f *file, n int64) {
	if f.kind == kindMeta || f.kind == kindDelta {
		if n > 0 {
			c.lose(f, "it has holes")
		}
		return
	}
	var block [4096]byte
	for n > 0 && !f.lost {
		unit := int64(region)
		if f.known {
			unit = int64(f.lay.size)
		}
		// The beginning of a file decides on its layout and must be seen; from then on whole pages of zeros are empty.
		fresh := f.part == nil && f.win == nil && f.pos%unit == 0 && f.skipTo <= f.pos
		if whole := n - n%unit; fresh && whole > 0 && (f.known || f.pos > 0) {
			c.count(empty, whole/int64(f.pageSize()))
			f.pos += whole
			n -= whole
			continue
		}
		k := min(n, int64(len(block)), unit-f.pos%unit)
		c.feed(f, c.raw, block[:k])
		n -= k
	}
	f.pos += n
}

// pageSize is the size of f's pages, or the usual one while it is not known.
func (f *file) pageSize() int {
	if f.known {
		return f.lay.size
	}
	return midPage
}

// lose gives up on the rest of f.
func (c *Checker) lose(f *file, reason string) {
	if f.lost {
		return
	}
	f.lost = true
	c.release(f)
	if !f.judged && f.kind != kindMeta {
		c.skipped(f.path, reason)
	}
}

// release gives back all buffers of f.
func (c *Checker) release(f *file) {
	c.mem.give(f.part)
	f.part = nil
	if f.win != nil {
		c.mem.give(f.win.buf)
		f.win = nil
	}
	if f.delta != nil {
		c.mem.give(f.delta.index)
		f.delta.index = nil
	}
}

// end judges what is left of f. ended tells that the stream said so, and did not just end itself.
func (c *Checker) end(f *file, ended bool) {
	if f.kind == kindMeta {
		c.keepMeta(f)
		return
	}
	if f.win != nil {
		c.settleRest(f)
	}
	if f.part != nil {
		c.stats.Tails++
	}
	if f.kind == kindDelta && !f.lost && ended {
		c.endDelta(f)
	}
	switch {
	case f.lost, f.judged:
	case f.pos == 0:
		c.skipped(f.path, "no content")
	case f.used:
		c.skipped(f.path, "no page that fits a checksum rule")
	default:
		c.skipped(f.path, "no page was written yet")
	}
	c.release(f)
}
