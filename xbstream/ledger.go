package xbstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An openFile is a file that has begun and not ended.
type openFile struct {
	path   string
	pos    int64 // where its next payload goes
	number int   // of its version
}

// A ledger holds what the rules between chunks need to know: which files are open and where they stand, and which paths
// have ended. It keeps little for a file that has ended, since there may be hundreds of thousands.
type ledger struct {
	open     map[string]*openFile
	last     *openFile // of the last payload or seek, nil after it ended
	ended    *pathSet
	versions int    // opened so far
	rewrites int    // of these, how many replaced an ended one
	doubt    *Error // a lone end on an ended path that no rewrite has explained yet, with its place
	meta     metadata
}

func newLedger() *ledger {
	return &ledger{open: make(map[string]*openFile), ended: newPathSet()}
}

// apply judges a chunk by what came before it and enters it into the books. It returns the chunk's path, shared by all
// chunks of a file, and the number of its file. at is the stream offset of the chunk.
func (l *ledger) apply(h *head, at int64) (string, int, *Error) {
	switch h.typ {
	case TypeRename:
		err := l.rename(string(h.path), string(h.newPath))
		return string(h.path), -1, err
	case TypeRemove:
		err := l.drop(string(h.path))
		return string(h.path), -1, err
	}
	f, err := l.file(h, at)
	if err != nil {
		return "", 0, err
	}
	return f.path, f.number, l.move(f, h)
}

// file returns the open file that the chunk belongs to, opening it if need be.
func (l *ledger) file(h *head, at int64) (*openFile, *Error) {
	if l.last != nil && l.last.path == string(h.path) {
		return l.last, nil
	}
	f := l.open[string(h.path)]
	if f == nil {
		path := string(h.path)
		if err := l.mayOpen(path, h, at); err != nil {
			return nil, err
		}
		f = &openFile{path: path, number: l.versions}
		l.open[path] = f
		l.versions++
	}
	l.last = f
	return f, nil
}

// mayOpen judges whether the chunk may open a version of path, and frees the path if an ended version has it.
func (l *ledger) mayOpen(path string, h *head, at int64) *Error {
	if err := CheckPath(path); err != nil {
		return &Error{Kind: KindPath, Path: path, Err: err}
	}
	flagged := h.flags&FlagRewrite != 0
	switch {
	case flagged:
		l.doubt = nil
	case l.doubt != nil && h.typ != TypeEnd:
		return l.doubt
	}
	if !l.ended.remove(path) {
		return nil
	}
	l.rewrites++
	if flagged {
		return nil
	}
	repeated := fault(KindRepeated, path, "repeated path: the file has ended before")
	if h.typ != TypeEnd {
		return repeated
	}
	if l.doubt == nil {
		repeated.Offset = at
		l.doubt = repeated
	}
	return nil
}

// move does to the open file what the chunk says.
func (l *ledger) move(f *openFile, h *head) *Error {
	switch h.typ {
	case TypeEnd:
		delete(l.open, f.path)
		l.ended.add(f.path)
		l.meta.ended(f.path)
		l.last = nil
		return nil
	case TypeSeek:
		f.pos = h.offset
		return nil
	}
	if h.offset != f.pos {
		return fault(KindOrder, f.path, "payload out of order: position is %d, expected %d", h.offset, f.pos)
	}
	f.pos += h.size
	for e := range h.eachExtent {
		f.pos += int64(e.Skip)
	}
	return nil
}

func (l *ledger) rename(from, to string) *Error {
	for _, path := range []string{from, to} {
		if err := CheckPath(path); err != nil {
			return &Error{Kind: KindPath, Path: path, Err: err}
		}
		if l.open[path] != nil {
			return fault(KindOpen, path, "rename from %q to %q: file has not ended", from, to)
		}
	}
	if l.ended.remove(from) {
		l.ended.add(to)
	}
	return nil
}

// drop removes what a remove chunk names: the files of one directory whose names begin so, a file, or else a directory
// with all below it.
func (l *ledger) drop(path string) *Error {
	if err := checkRemove(path); err != nil {
		return &Error{Kind: KindPath, Path: path, Err: err}
	}
	prefix, all := strings.CutSuffix(path, "*")
	if !all {
		prefix = path + "/"
	}
	for name := range l.open {
		if name == path || begins(name, prefix, all) {
			return fault(KindOpen, path, "remove: file %q has not ended", name)
		}
	}
	if all || !l.ended.remove(path) {
		l.ended.removePrefix(prefix, all)
	}
	return nil
}

// finish judges the end of the stream.
func (l *ledger) finish(expect Expect) *Error {
	if l.doubt != nil {
		return l.doubt
	}
	if len(l.open) > 0 {
		return fault(KindUnended, "", "%s", l.unended())
	}
	if missing := l.meta.missing(); missing != "" && expect == ExpectBackup {
		return fault(KindMetadata, "", "closing metadata files missing: %s", missing)
	}
	return nil
}

// unended says how many files have no end and names the first few, in the order in which they were opened.
func (l *ledger) unended() string {
	const few = 5
	files := slices.SortedFunc(maps.Values(l.open), func(a, b *openFile) int { return a.number - b.number })
	var names strings.Builder
	for i, f := range files[:min(few, len(files))] {
		if i > 0 {
			names.WriteString(", ")
		}
		fmt.Fprintf(&names, "%q", f.path)
	}
	if len(files) > few {
		names.WriteString(", …")
	}
	return fmt.Sprintf("%d without an end: %s", len(files), names.String())
}
