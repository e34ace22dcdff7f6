package innodb

// A file's layout stands in its page 0. That page may be damaged, still unwritten, or, in the second and later files of
// the system tablespace and in fragments, not there at all. Then pages are tried under every layout until one keeps the
// CRC-32C and the number of one: nothing else is taken as evidence. What was seen before that stays unchecked.

// A step is what a look at the beginning of a file, or at a region of it, led to.
type step uint8

const (
	stepMore  step = iota // so many bytes must be seen together
	stepAdopt             // the layout is known
	stepPass              // so many bytes can't tell
)

// A window holds the bytes that are looked at together, when no piece has them all.
type window struct {
	base int64  // position in the file
	want int    // bytes needed
	buf  []byte // so far
	segs []segment
}

// A segment says where a run of a window's bytes stands in the stream.
type segment struct {
	raw int64
	n   int
}

// maxSegments bounds the segments of a window. Only a stream of tiny chunks has more; the place of a page is then that of
// the last segment.
const maxSegments = 256

func (w *window) add(raw int64, p []byte) {
	w.buf = append(w.buf, p...)
	if n := len(w.segs); n > 0 {
		last := &w.segs[n-1]
		if last.raw+int64(last.n) == raw || n == maxSegments {
			last.n += len(p)
			return
		}
	}
	w.segs = append(w.segs, segment{raw, len(p)})
}

// at returns where byte off of the window stands in the stream.
func (w *window) at(off int) int64 {
	for _, s := range w.segs {
		if off < s.n {
			return s.raw + int64(off)
		}
		off -= s.n
	}
	return 0
}

// search takes the next bytes of a file whose layout is not known.
func (c *Checker) search(f *file, raw int64, p []byte) {
	for len(p) > 0 && !f.known && !f.lost {
		var n int
		switch {
		case f.win != nil:
			n = c.collect(f, raw, p)
		case f.pos%region != 0: // a fragment began in the middle
			n = int(min(region-f.pos%region, int64(len(p))))
			c.count(unchecked, int64(n/midPage))
			f.used = true
		default:
			n = c.look(f, p)
		}
		f.pos += int64(n)
		raw += int64(n)
		p = p[n:]
	}
	switch {
	case len(p) == 0:
	case f.known:
		c.pages(f, raw, p)
	default:
		f.pos += int64(len(p))
	}
}

// look tries to decide on what lies in p, without a copy. It returns how many bytes it is through with.
func (c *Checker) look(f *file, p []byte) int {
	what, n := c.settle(f, f.pos, p, false)
	switch what {
	case stepPass:
		c.pass(f, p[:n])
		return n
	case stepMore:
		f.win = &window{base: f.pos}
		c.widen(f, n)
	}
	return 0
}

// widen makes f's window take want bytes.
func (c *Checker) widen(f *file, want int) {
	size := headSize
	for size < want {
		size <<= 1
	}
	buf := c.mem.take(size)
	if buf == nil {
		c.lose(f, "too many files were open at once")
		return
	}
	old := f.win.buf
	f.win.buf, f.win.want = append(buf, old...), want
	c.mem.give(old)
}

// collect adds to f's window and decides when it is full. It returns how many bytes of p it took.
func (c *Checker) collect(f *file, raw int64, p []byte) int {
	w := f.win
	n := min(w.want-len(w.buf), len(p))
	w.add(raw, p[:n])
	if len(w.buf) < w.want {
		return n
	}
	what, k := c.settle(f, w.base, w.buf, false)
	switch {
	case f.lost:
	case what == stepMore:
		c.widen(f, k)
	default:
		f.pos += int64(n)
		c.closeWindow(f, what)
		f.pos -= int64(n)
	}
	return n
}

// settleRest decides on a window to which nothing more will come.
func (c *Checker) settleRest(f *file) {
	what, _ := c.settle(f, f.win.base, f.win.buf, true)
	if f.lost {
		return
	}
	if what == stepPass && len(f.win.buf)%midPage != 0 {
		c.stats.Tails++
	}
	c.closeWindow(f, what)
}

// closeWindow is done with f's window: its pages are judged or passed over. f.pos stands behind it before and after.
func (c *Checker) closeWindow(f *file, what step) {
	w, end := f.win, f.pos
	f.win = nil
	if what == stepAdopt {
		off, size := 0, f.lay.size
		for f.pos = w.base; len(w.buf)-off >= size && !f.lost; off += size {
			c.page(f, w.at(off), w.buf[off:off+size])
			f.pos += int64(size)
		}
		if off < len(w.buf) && !f.lost {
			c.pages(f, w.at(off), w.buf[off:])
		}
		f.pos = end
	} else {
		c.pass(f, w.buf)
	}
	c.mem.give(w.buf)
}

// pass counts bytes that could not tell the layout.
func (c *Checker) pass(f *file, p []byte) {
	n := int64(len(p) / midPage)
	if blank(p) {
		c.count(empty, n)
		return
	}
	f.used = true
	c.count(unchecked, n)
}

// settle looks at w, which stands at base in f, for the layout. final tells that w will not grow. The count that it
// returns is at most 2*region, and for stepPass it is all of w but for what lies beyond that.
func (c *Checker) settle(f *file, base int64, w []byte, final bool) (step, int) {
	if f.kind == kindDelta {
		return c.settleDelta(f, w, final)
	}
	if base == 0 {
		return c.settleFirst(f, w, final)
	}
	if len(w) < region && !final {
		return stepMore, region
	}
	w = w[:min(len(w), region)]
	if c.evidence(f, base, w) {
		return stepAdopt, 0
	}
	return stepPass, len(w)
}

// settleFirst decides at the beginning of a file.
func (c *Checker) settleFirst(f *file, w []byte, final bool) (step, int) {
	if len(w) < headSize {
		if final {
			return stepPass, len(w)
		}
		return stepMore, headSize
	}
	claim, ok := claimed(w)
	if f.kind == kindSystem && be32(w[4:])|be32(w[34:]) != 0 {
		ok = false // a later file of it: what stands at the place of the flags means something else
	}
	v := bad
	if ok {
		if len(w) < claim.size && !final {
			return stepMore, claim.size
		}
		if len(w) >= claim.size {
			v, _ = c.judge.page(claim, w[:claim.size], 0)
		}
	}
	if v == sound {
		c.adopt(f, claim, 0)
		return stepAdopt, 0
	}
	want := 2 * region
	if v == empty {
		want = region
	}
	if len(w) < want && !final {
		return stepMore, want
	}
	w = w[:min(len(w), want)]
	switch {
	case c.evidence(f, 0, w):
		return stepAdopt, 0
	case v == bad && ok && len(w) >= claim.size:
		c.adopt(f, claim, 0) // page 0 is bad, but its flags are possible
		return stepAdopt, 0
	case !ok && f.kind == kindSpace && len(w) >= minPlain:
		f.judged = true
		c.count(bad, 1)
		c.report(f, Page{RawOffset: f.rawStart(c)}, fault{rule: ruleFlags, stored: be32(w[flagsAt:])})
	}
	return stepPass, len(w)
}

// rawStart is where the first byte of f stands in the stream, while that is being settled.
func (f *file) rawStart(c *Checker) int64 {
	if f.win != nil {
		return f.win.segs[0].raw
	}
	return c.raw
}

// adopt says what layout f has.
func (c *Checker) adopt(f *file, l layout, start int64) {
	f.lay, f.start, f.known = l, start, true
}

// evidence adopts the layout under which any page of w, which stands at base in f, is sound beyond doubt; if there is
// none, the layout under which a page has the form of those without a checksum.
func (c *Checker) evidence(f *file, base int64, w []byte) bool {
	for _, want := range [...]verdict{sound, unchecked} {
		for _, l := range c.layouts {
			for off := 0; off+l.size <= len(w); off += l.size {
				if c.shows(f, l, base+int64(off), w[off:off+l.size]) == want {
					c.adopt(f, l, int64(be32(w[off+4:]))-(base+int64(off))/int64(l.size))
					return true
				}
			}
		}
	}
	return false
}

// shows returns the verdict over page p at position pos of f under layout l, without the allowances for old servers, and
// bad if its number can't be right.
func (c *Checker) shows(f *file, l layout, pos int64, p []byte) verdict {
	no := pos / int64(l.size)
	start := int64(be32(p[4:])) - no
	if f.kind == kindSystem && (start < 0 || l.copies(no)) || f.kind != kindSystem && start != 0 {
		return bad
	}
	v, _ := judge{c.judge.sums, true}.page(l, p, anyNumber)
	return v
}
