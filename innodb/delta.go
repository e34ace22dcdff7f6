package innodb

import (
	"bytes"
	"strconv"
	"strings"
)

// A delta file holds blocks of a quarter of the page size in pages. The first page of a block is an index: a magic, which
// tells whether it is the last block, then the numbers of the pages that follow, ended by noPage unless the block is full.
// Source: MariaDB's write_filt.cc, compared with real incremental backups.
const (
	moreBlocks = 0x78747261 // "xtra"
	lastBlock  = 0x58545241 // "XTRA"
	noPage     = 0xFFFFFFFF
)

// Limits on what is kept of meta files.
const (
	maxMetaSize = 512
	maxMetas    = 4096
)

// A delta is what a file of kindDelta needs besides.
type delta struct {
	fixed  bool   // the format of the pages is known
	system bool   // of the system tablespace, whose pages are not numbered by their place in the file
	index  []byte // of the current block, from Checker.mem
	slot   int    // which page of the block comes next; 0 is the index
	last   bool   // the current block is the last
}

// A meta is what a meta file says.
type meta struct {
	size   int
	zip    bool
	system bool
}

// meta collects the text of a meta file.
func (f *file) meta(p []byte) {
	if f.lost || len(f.lines)+len(p) > maxMetaSize {
		f.lost = true
		return
	}
	f.lines = append(f.lines, p...)
	f.pos += int64(len(p))
}

// keepMeta remembers a whole meta file until its delta begins, which the tool sends next.
func (c *Checker) keepMeta(f *file) {
	m := meta{}
	for line := range bytes.Lines(f.lines) {
		key, value, _ := strings.Cut(string(line), "=")
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil {
			continue
		}
		switch strings.TrimSpace(key) {
		case "page_size":
			m.size = n
		case "zip_size":
			m.zip = n != 0
		case "space_id":
			m.system = n == 0
		}
	}
	if f.lost || !pageSize(m.size) || len(c.metas) >= maxMetas {
		return
	}
	c.metas[strings.TrimSuffix(f.path, ".meta")] = m
}

// openDelta prepares f for the pages of a delta.
func (c *Checker) openDelta(f *file) {
	name := strings.TrimSuffix(f.path, ".delta")
	f.delta = &delta{system: kindOf(name) == kindSystem}
	m, ok := c.metas[name]
	if !ok {
		return
	}
	delete(c.metas, name)
	f.known, f.lay.size = true, m.size
	f.delta.system = f.delta.system || m.system
	if m.zip {
		f.lay.format, f.delta.fixed = formatZip, true
	}
}

// settleDelta finds the size of the pages of a delta whose meta file was not seen: the first pages are tried.
func (c *Checker) settleDelta(f *file, w []byte, final bool) (step, int) {
	if len(w) < 2*region && !final {
		return stepMore, 2 * region
	}
	w = w[:min(len(w), 2*region)]
	if len(w) >= 8 && be32(w) == lastBlock && be32(w[4:]) == noPage {
		f.judged = true
	} else {
		for size := minPage; size <= maxPage; size <<= 1 {
			if c.deltaFits(w, size) {
				c.adopt(f, layout{size: size}, 0)
				return stepAdopt, 0
			}
		}
		f.used = true
	}
	c.lose(f, "no page tells their size, and the meta file is missing")
	return stepPass, 0
}

// deltaFits tells whether a page of w is sound if pages have this size.
func (c *Checker) deltaFits(w []byte, size int) bool {
	for slot := 1; (slot+1)*size <= len(w) && slot < size/4; slot++ {
		no := be32(w[4*slot:])
		if no == noPage {
			break
		}
		for _, format := range [...]format{formatFull, formatPlain, formatZip} {
			l, p := layout{size, format}, w[slot*size:(slot+1)*size]
			if v, _ := c.judge.page(l, p, int64(no)); v == sound {
				return true
			}
		}
	}
	return false
}

// deltaPage judges the next page of a delta, which stands at f.pos.
func (c *Checker) deltaPage(f *file, raw int64, p []byte) {
	d := f.delta
	if d.slot == 0 {
		c.deltaIndex(f, raw, p)
		return
	}
	no := be32(d.index[4*d.slot:])
	if no == noPage {
		c.badDelta(f, raw, fault{rule: ruleUnlisted})
		return
	}
	v, why := c.deltaVerdict(f, p, int64(no))
	c.count(v, 1)
	if v == bad {
		c.report(f, Page{Number: uint64(no), Offset: f.pos, RawOffset: raw}, why)
	}
	if d.slot++; d.slot == f.lay.size/4 {
		c.mem.give(d.index)
		d.index, d.slot = nil, 0
	}
}

// deltaIndex takes the index of the next block.
func (c *Checker) deltaIndex(f *file, raw int64, p []byte) {
	d := f.delta
	magic := be32(p)
	if d.last || magic != lastBlock && magic != moreBlocks {
		c.badDelta(f, raw, fault{ruleMark, magic, lastBlock})
		return
	}
	if d.index = c.mem.take(f.lay.size); d.index == nil {
		c.lose(f, "too many files were open at once")
		return
	}
	d.index = append(d.index, p...)
	d.last, d.slot = magic == lastBlock, 1
	f.judged = true
}

// badDelta reports that the structure of a delta is broken at f.pos, behind which nothing can be judged.
func (c *Checker) badDelta(f *file, raw int64, why fault) {
	f.judged = true
	c.count(bad, 1)
	c.report(f, Page{Offset: f.pos, RawOffset: raw}, why)
	c.lose(f, "")
}

// endDelta judges a delta that has ended: all that its index lists must have come.
func (c *Checker) endDelta(f *file) {
	d := f.delta
	if f.pos == 0 {
		return
	}
	open := d.slot > 0 && d.slot < f.lay.size/4 && be32(d.index[4*d.slot:]) != noPage
	if f.known && (open || f.part != nil || !d.last) {
		c.badDelta(f, c.raw, fault{rule: ruleCut})
	}
}

// deltaVerdict judges page no of a delta. The flags stand in page 0, which may not have changed: then the first page that
// is sound under one of the formats decides.
func (c *Checker) deltaVerdict(f *file, p []byte, no int64) (verdict, fault) {
	d := f.delta
	if d.system && f.lay.copies(no) {
		return unchecked, fault{}
	}
	expect := no
	if d.system { // no counts in the file, the page in the tablespace
		expect = anyNumber
	}
	if d.fixed {
		return c.judge.page(f.lay, p, expect)
	}
	var why [formatZip + 1]fault
	for i := range why {
		l := layout{f.lay.size, format(i)}
		v, reason := c.judge.page(l, p, expect)
		if v == bad {
			why[i] = reason
			continue
		}
		if v == sound && evident(c.judge.sums, l, p) {
			f.lay, d.fixed = l, true
		}
		return v, fault{}
	}
	if be32(p[20:]) == be32(p[len(p)-4:]) { // only formatPlain has the log sequence number there
		return bad, why[formatPlain]
	}
	return bad, why[formatFull]
}

// evident tells whether p is sound without the allowances for old servers.
func evident(s sums, l layout, p []byte) bool {
	v, _ := judge{s, true}.page(l, p, anyNumber)
	return v == sound
}
