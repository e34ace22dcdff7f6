package backup

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/innodb"
	"github.com/mbwrap/mbwrap/xbstream"
)

// pages looks at the checksums of InnoDB's pages as they pass by. It is an xbstream.Handler that returns no error and
// raises no panic, whatever becomes of the check: a backup that can't be looked at is still a backup.
type pages struct {
	checker pageChecker
	err     error        // why the check was given up
	stats   innodb.Stats // once it has ended

	named []innodb.Page    // the first bad pages
	bad   map[string]int64 // bad pages of each tablespace, by path
	more  map[string]int64 // those of them that are not among named
	total int64
}

// pageChecker is the part of innodb.Checker that is needed here.
type pageChecker interface {
	xbstream.Handler
	Close()
	Stats() innodb.Stats
}

// maxPages is how many bad pages are named, and of how many tablespaces those that are not are counted.
const maxPages = 100

func newPages() *pages {
	p := &pages{bad: make(map[string]int64), more: make(map[string]int64)}
	p.checker = innodb.NewChecker(innodb.Options{OnBad: p.note})
	return p
}

// note takes a bad page down.
func (p *pages) note(page innodb.Page) {
	p.total++
	p.bad[page.Path]++
	if len(p.named) < maxPages {
		p.named = append(p.named, page)
		return
	}
	p.more[page.Path]++
}

// Chunk shows a chunk's head to the checker.
func (p *pages) Chunk(c *xbstream.Chunk) error {
	p.guard(func() error { return p.checker.Chunk(c) })
	return nil
}

// Data shows payload to the checker.
func (p *pages) Data(b []byte) error {
	p.guard(func() error { return p.checker.Data(b) })
	return nil
}

// guard calls look unless the check was given up, and gives it up when that fails.
func (p *pages) guard(look func() error) {
	if p.err != nil {
		return
	}
	defer func() {
		if fault := recover(); fault != nil {
			p.err = fmt.Errorf("innodb: internal error: %v", fault)
		}
	}()
	p.err = look()
}

// report ends the check and warns of what was found: without the names of tables, which are in the details.
func (p *pages) report(r *run, m *catalog.Manifest) {
	p.guard(func() error {
		p.checker.Close()
		p.stats = p.checker.Stats()
		return nil
	})
	if p.err != nil {
		r.warn(m, "the check of InnoDB's pages failed, and not all of them were looked at", "check of pages: "+p.err.Error())
	}
	if p.total == 0 {
		return
	}
	verdict := "have wrong checksums"
	if p.total == 1 {
		verdict = "has a wrong checksum"
	}
	r.warn(m, fmt.Sprintf("%s of %s %s", counted(p.total, "page"), counted(int64(len(p.bad)), "tablespace"), verdict),
		p.details()...)
}

// details names the bad pages.
func (p *pages) details() []string {
	var all []string
	for _, page := range p.named {
		all = append(all, fmt.Sprintf("%s, page %d, at byte %d of the file: %s", place(page), page.Number, page.Offset, page.Message))
	}
	paths := slices.Sorted(maps.Keys(p.more))
	for _, path := range paths[:min(len(paths), maxPages)] {
		all = append(all, fmt.Sprintf("file %q has %s more", path, counted(p.more[path], "bad page")))
	}
	if left := len(paths) - maxPages; left > 0 {
		all = append(all, fmt.Sprintf("%s more have bad pages", counted(int64(left), "file")))
	}
	return all
}

// place names a page's table, and its file where that says more.
func place(page innodb.Page) string {
	if page.Table == "" {
		return fmt.Sprintf("file %q", page.Path)
	}
	return fmt.Sprintf("table %q (%s)", page.Table, page.Path)
}

// counted returns a number and what it counts.
func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
