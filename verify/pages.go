package verify

import (
	"fmt"
	"slices"

	"github.com/mbwrap/mbwrap/innodb"
	"github.com/mbwrap/mbwrap/xbstream"
)

// pageChecker has the pages of InnoDB's files checked while the stream goes by, with or without gaps.
type pageChecker struct {
	checker *checker
	inner   *innodb.Checker
	file    int   // the version of which the last part was handed on
	next    int64 // raw offset behind that part
	gaps    []int64
	cut     int64 // findings that were dropped: of pages that were not seen whole
}

func newPageChecker(c *checker) *pageChecker {
	p := &pageChecker{checker: c, file: -1}
	p.inner = innodb.NewChecker(innodb.Options{OnBad: p.bad})
	return p
}

// maxPage is the size of InnoDB's largest pages, in bytes.
const maxPage = 64 << 10

// gap tells that the raw stream from at on is missing.
func (p *pageChecker) gap(at int64) {
	if n := len(p.gaps); n == 0 || p.gaps[n-1] < at {
		p.gaps = append(p.gaps, at)
	}
}

// seenWhole tells whether no gap can lie in a page that begins at raw.
func (p *pageChecker) seenWhole(raw int64) bool {
	i, _ := slices.BinarySearch(p.gaps, raw)
	return i == len(p.gaps) || p.gaps[i]-raw >= maxPage
}

// bad reports a bad page.
func (p *pageChecker) bad(page innodb.Page) {
	if !p.seenWhole(page.RawOffset) {
		p.cut++
		return
	}
	p.checker.lose(page.Path, whyPages)
	if p.checker.full() {
		p.checker.problem(Problem{}) // counted only
		return
	}
	found := whole("", fmt.Sprintf("bad page %d at byte %d of the file: %s", page.Number, page.Offset, page.Message))
	found.RawOffset = page.RawOffset
	found.addFile(page.Path)
	p.checker.place(&found)
	p.checker.problem(found)
}

// Chunk and Data show the checker a stream without gaps. Its findings are no errors.
func (p *pageChecker) Chunk(c *xbstream.Chunk) error { return p.inner.Chunk(c) }
func (p *pageChecker) Data(data []byte) error        { return p.inner.Data(data) }

// part hands on what data, which begins at start of the raw stream, holds of a chunk that the index knows.
func (p *pageChecker) part(c *xbstream.Chunk, start int64, data []byte) {
	if !innodb.IsTablespace(c.Path) {
		return
	}
	from := max(start, c.Data)
	to := min(start+int64(len(data)), c.Data+c.Size)
	switch {
	case p.file == c.File && p.next == from && from > c.Data: // it goes on
	case from == c.Data:
		_ = p.inner.Chunk(c) // it has no errors
	case c.Type == xbstream.TypePayload:
		rest := *c
		rest.Offset, rest.Data, rest.Size = c.Offset+from-c.Data, from, c.Data+c.Size-from
		_ = p.inner.Chunk(&rest)
	default:
		return // a sparse chunk is of no use without its head
	}
	if from < to {
		_ = p.inner.Data(data[from-start : to-start])
	}
	p.file, p.next = c.File, to
}

// finish sums up.
func (p *pageChecker) finish() {
	p.inner.Close()
	s := p.inner.Stats()
	count := &PageCount{
		Files: s.Files, Pages: s.Pages, Empty: s.Empty, Unchecked: s.Unchecked + p.cut, Bad: s.Bad - p.cut, NotChecked: s.Skipped, Why: []string{},
	}
	for _, skip := range s.Skips {
		count.Why = append(count.Why, skip.Path+": "+skip.Reason)
	}
	p.checker.report.Pages = count
}
