package restore

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/mbwrap/mbwrap/innodb"
	"github.com/mbwrap/mbwrap/mariadb"
)

// LostFile is a file that could not be salvaged.
type LostFile struct {
	Path  string `json:"path"`            // where it would be
	Table string `json:"table,omitempty"` // "db.table" in readable characters, "" if it belongs to none
	// Reason says what is the matter, and where in the store.
	Reason string `json:"reason"`
	// RawOffset is the offset in bytes in the raw stream of the damage, or of the chunk that is wrong.
	RawOffset int64 `json:"raw_offset"`
}

// maxLost is how many lost files a result and the state of an unfinished restore list. The file in the target lists all.
const maxLost = 1000

// cause says what is the matter with a lost file.
type cause struct {
	offset int64 // in the raw stream
	reason string
}

// losses collects what can't be salvaged. It belongs to one goroutine; the zero value is ready.
type losses struct {
	files map[string]cause // by path; the first cause counts
	notes []string         // where the stream could not be read, of a stream without an index
	// unsure tells that files may be lost which nobody can name: there was damage, and no index.
	unsure bool
}

// maxNotes is how many notes are kept.
const maxNotes = 100

// note notes where the stream could not be read.
func (l *losses) note(text string) {
	if len(l.notes) < maxNotes {
		l.notes = append(l.notes, text)
	}
}

// add notes that a file is lost.
func (l *losses) add(path string, why cause) {
	if l.files == nil {
		l.files = make(map[string]cause)
	}
	if _, known := l.files[path]; !known {
		l.files[path] = why
	}
}

// found takes back that a file is lost.
func (l *losses) found(path string) { delete(l.files, path) }

// any tells whether something is lost.
func (l *losses) any() bool { return len(l.files) > 0 || l.unsure }

// paths returns the lost files in order.
func (l *losses) paths() []string { return slices.Sorted(maps.Keys(l.files)) }

// list returns the first lost files.
func (l *losses) list() []LostFile {
	paths := l.paths()
	paths = paths[:min(len(paths), maxLost)]
	list := make([]LostFile, 0, len(paths))
	for _, p := range paths {
		why := l.files[p]
		list = append(list, LostFile{Path: p, Table: innodb.TableName(p), Reason: why.reason, RawOffset: why.offset})
	}
	return list
}

// text returns the list of all lost files for the file in the target: one line each, path, table, offset and reason
// between tabs.
func (l *losses) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %d files could not be restored: file, table, offset of the damage in the raw stream, reason\n", len(l.files))
	for _, p := range l.paths() {
		why := l.files[p]
		fmt.Fprintf(&b, "%s\t%s\t%d\t%s\n", strings.ReplaceAll(p, "\n", `\n`), innodb.TableName(p), why.offset, why.reason)
	}
	return b.Bytes()
}

// core returns those of the lost files without which the tool can't prepare the rest.
func (l *losses) core() []string {
	var core []string
	for _, p := range l.paths() {
		if mariadb.PrepareNeeds(p) {
			core = append(core, p)
		}
	}
	return core
}

// damageKind says what the loss of a file means to its table.
type damageKind int

const (
	lostRows       damageKind = iota // the rows of a table of InnoDB
	lostPartition                    // the rows of one of the table's partitions
	lostDefinition                   // a table's definition, when its rows are there
	lostKeys                         // the index file of a MyISAM or Aria table, whose rows are there
	lostOther                        // the rows of a table of another engine
	lostWords                        // a table behind a full-text index
	lostSystem                       // anything of the server's own tables
	lostExtra                        // triggers, options of a database
)

// kindOf tells what the loss of a file means.
func kindOf(name string) damageKind {
	database, base, _ := strings.Cut(name, "/")
	switch ext := path.Ext(base); {
	case database == "mysql":
		return lostSystem
	case ext == ".ibd" || ext == ".new":
		switch {
		case strings.HasPrefix(base, "FTS_"):
			return lostWords
		case strings.Contains(strings.ToUpper(base), "#P#"):
			return lostPartition
		}
		return lostRows
	case ext == ".frm" || ext == ".par":
		return lostDefinition
	case ext == ".MYI" || ext == ".MAI":
		return lostKeys
	case ext == ".MYD" || ext == ".MAD" || ext == ".CSV" || ext == ".ARZ" || ext == ".MRG":
		return lostOther
	}
	return lostExtra
}

// tables returns the lost tables by what is lost of them, each in one kind only, that of the greatest loss, and each kind
// in order. Files that belong to no table stand for themselves.
func (l *losses) tables() map[damageKind][]string {
	rank := map[damageKind]int{lostRows: 0, lostPartition: 1, lostOther: 2, lostSystem: 3, lostDefinition: 4, lostKeys: 5, lostWords: 6, lostExtra: 7}
	worst := make(map[string]damageKind)
	for p := range l.files {
		name := innodb.TableName(p)
		kind := kindOf(p)
		if name == "" || kind == lostWords || kind == lostExtra || !strings.Contains(p, "/") {
			name = p
		}
		if before, known := worst[name]; !known || rank[kind] < rank[before] {
			worst[name] = kind
		}
	}
	byKind := make(map[damageKind][]string)
	for _, name := range slices.Sorted(maps.Keys(worst)) {
		byKind[worst[name]] = append(byKind[worst[name]], name)
	}
	return byKind
}
