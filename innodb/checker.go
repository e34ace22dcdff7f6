package innodb

import (
	"slices"
	"strings"

	"github.com/mbwrap/mbwrap/xbstream"
)

// MaxSkips is how many skipped files Stats names. They are all counted.
const MaxSkips = 100

// Options of a Checker.
type Options struct {
	// OnBad is called for every bad page, from within Chunk, Data and Close, on the caller's goroutine. A ruined backup
	// has millions of them: keep the first few, Stats counts all. May be nil.
	OnBad func(Page)
	// Strict refuses the sums of innodb_checksum_algorithm=innodb and =none, which servers before 10.6 could write.
	Strict bool
}

// A Page is a page that breaks its rule.
type Page struct {
	Path      string // of the file in the stream
	Table     string // TableName of Path: "db.table", or "" if the file belongs to no table
	Number    uint64 // the page's number in its file, from 0; in a delta, the number in the file that it changes
	Offset    int64  // in bytes, where the page begins in the file as the stream has it
	RawOffset int64  // in bytes, where the page begins in the stream; its other end may stand in a later chunk
	Message   string // which rule, and what was stored and computed
}

// Stats counts what was seen so far.
type Stats struct {
	Files     int64  // versions of InnoDB's files
	Bytes     int64  // of these files
	Pages     int64  // pages seen; the next three are among them
	Empty     int64  // all zero, which is right for a page that was never used
	Unchecked int64  // without a verdict: doublewrite copies, pages that carry no checksum, pages not seen whole
	Bad       int64  // break their rule
	Tails     int64  // files that end with less than a page, which is passed over as the server does
	Skipped   int64  // files of which not a single page could be judged, such as those without any content yet
	Skips     []Skip // the first MaxSkips of these
}

// A Skip says why a file was not judged.
type Skip struct {
	Path   string
	Reason string
}

// A Checker judges every page of InnoDB's files in a stream: tablespaces (.ibd, and .new for those made during the
// backup), undo and system tablespaces, and the deltas of incremental backups. It is the Handler of an xbstream.Checker,
// for a whole stream or a fragment. It looks at pages where they lie and copies only those that were cut by the pieces it
// is handed; for these it holds one page for each open file, and never more than 64 MiB: beyond that pages stay
// unchecked. It keeps no reference to what it is handed, and belongs to one goroutine at a time.
//
// A page that is not reported either keeps its checksum or has none that can be computed from what is stored. It may
// still be the wrong page of the right file, or an old one: no checksum tells.
type Checker struct {
	o     Options
	judge judge
	stats Stats
	mem   memory

	layouts []layout // all there are: a hundred thousand small files would each make the list again

	files map[int]*file    // open versions by Chunk.File
	loose map[string]*file // in a fragment, where versions have no number
	metas map[string]meta  // of deltas that have not begun

	idle *file // one that has ended, for the next; nil if there is none

	cur     *file             // whose payload comes next, nil if it is none of ours
	raw     int64             // stream offset of that payload
	extents []xbstream.Extent // of a sparse chunk: what is left
}

// NewChecker returns a Checker of one stream.
func NewChecker(o Options) *Checker {
	return &Checker{
		o: o, judge: judge{newSums(), o.Strict}, mem: memory{limit: maxHeld}, layouts: layouts(),
		files: map[int]*file{}, loose: map[string]*file{}, metas: map[string]meta{},
	}
}

// Chunk implements xbstream.Handler. It returns no error: a bad page is a finding.
func (c *Checker) Chunk(h *xbstream.Chunk) error {
	c.cur = nil
	switch h.Type {
	case xbstream.TypeRename, xbstream.TypeRemove:
		return nil
	}
	k := kindOf(h.Path)
	if k == kindNone {
		return nil
	}
	f := c.lookup(h, k)
	c.raw = h.Data
	switch h.Type {
	case xbstream.TypePayload:
		c.cur, c.extents = f, c.extents[:0]
		c.seek(f, h.Offset)
	case xbstream.TypeSparse:
		c.cur, c.extents = f, append(c.extents[:0], h.Extents...)
		c.seek(f, h.Offset)
		c.holes(f)
	case xbstream.TypeSeek:
		c.seek(f, h.Offset)
	case xbstream.TypeEnd:
		c.forget(h)
		c.end(f, true)
		*f = file{}
		c.idle = f
	}
	return nil
}

// Data implements xbstream.Handler. It returns no error: a bad page is a finding.
func (c *Checker) Data(p []byte) error {
	if c.cur == nil {
		return nil
	}
	for len(p) > 0 {
		n := len(p)
		if len(c.extents) > 0 {
			n = min(n, int(c.extents[0].Len))
		}
		c.feed(c.cur, c.raw, p[:n])
		c.raw += int64(n)
		p = p[n:]
		if len(c.extents) > 0 {
			c.extents[0].Len -= uint32(n)
			c.holes(c.cur)
		}
	}
	return nil
}

// holes drops the extents that are used up and passes over the holes in front of the next one.
func (c *Checker) holes(f *file) {
	for len(c.extents) > 0 {
		e := &c.extents[0]
		c.hole(f, int64(e.Skip))
		e.Skip = 0
		if e.Len > 0 {
			return
		}
		c.extents = c.extents[1:]
	}
}

// lookup returns the state of the file version that a chunk belongs to.
func (c *Checker) lookup(h *xbstream.Chunk, k kind) *file {
	f := c.files[h.File]
	if h.File < 0 {
		f = c.loose[h.Path]
	}
	if f != nil {
		return f
	}
	if f = c.idle; f == nil {
		f = new(file)
	}
	c.idle = nil
	f.path, f.kind, f.number = h.Path, k, h.File
	if h.File < 0 {
		c.loose[h.Path] = f
	} else {
		c.files[h.File] = f
	}
	if k != kindMeta {
		c.stats.Files++
	}
	if k == kindDelta {
		c.openDelta(f)
	}
	return f
}

func (c *Checker) forget(h *xbstream.Chunk) {
	if h.File < 0 {
		delete(c.loose, h.Path)
		return
	}
	delete(c.files, h.File)
}

// Close says that the stream ends here: files that have not ended are judged as far as they were seen. It may be called
// again.
func (c *Checker) Close() {
	open := make([]*file, 0, len(c.files)+len(c.loose))
	for _, f := range c.files {
		open = append(open, f)
	}
	for _, f := range c.loose {
		open = append(open, f)
	}
	slices.SortFunc(open, func(a, b *file) int {
		if a.number != b.number {
			return a.number - b.number
		}
		return strings.Compare(a.path, b.path)
	})
	for _, f := range open {
		c.end(f, false)
	}
	clear(c.files)
	clear(c.loose)
	clear(c.metas)
	c.cur = nil
}

// Stats returns the counts so far. Its Skips belong to the caller.
func (c *Checker) Stats() Stats {
	s := c.stats
	s.Skips = slices.Clone(s.Skips)
	return s
}

// count takes a verdict over n pages into the counts.
func (c *Checker) count(v verdict, n int64) {
	c.stats.Pages += n
	switch v {
	case empty:
		c.stats.Empty += n
	case unchecked:
		c.stats.Unchecked += n
	case bad:
		c.stats.Bad += n
	}
}

// report tells of a bad page. why makes its message.
func (c *Checker) report(f *file, p Page, why fault) {
	if c.o.OnBad == nil {
		return
	}
	p.Path, p.Table, p.Message = f.path, TableName(f.path), why.String()
	c.o.OnBad(p)
}

// skipped tells of a file without any verdict.
func (c *Checker) skipped(path, reason string) {
	c.stats.Skipped++
	if len(c.stats.Skips) < MaxSkips {
		c.stats.Skips = append(c.stats.Skips, Skip{path, reason})
	}
}
