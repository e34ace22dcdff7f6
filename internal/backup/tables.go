package backup

import (
	"maps"
	"slices"
	"strings"

	"github.com/mbwrap/mbwrap/xbstream"
)

// tables follows which tables that are not InnoDB's have a definition in the stream, and which have data. The tool
// (10.11.19) can lose the data of a table that is renamed or made anew while it runs, and still say "completed OK!": the
// definition then arrives alone. It is an xbstream.Handler.
//
// InnoDB tables are left out, since their data may lie in the system tablespace, and so are partitioned ones, whose
// definition does not say which engine holds the data.
type tables struct {
	parts map[string]parts // by path without its suffix

	frm  string // the definition whose first bytes are coming, "" if none
	head []byte
}

// parts is a set of the files of a table.
type parts uint8

// Files that a table is made of; the first three say which engine its definition names.
const (
	frmMyISAM parts = 1 << iota
	frmAria
	frmCSV
	hasMYI
	hasMYD
	hasMAI
	hasMAD
	hasCSV
)

var suffixes = map[string]parts{
	".MYI": hasMYI, ".MYD": hasMYD, ".MAI": hasMAI, ".MAD": hasMAD, ".CSV": hasCSV,
	".frm": frmMyISAM | frmAria | frmCSV,
}

// Bytes of a table's definition: it begins with frmMagic, and the engine's number stands at frmEngine. The numbers are
// those of a running 10.11 server.
const (
	frmMagic  = "\xfe\x01"
	frmEngine = 3
)

var engines = map[byte]parts{9: frmMyISAM, 42: frmAria, 17: frmCSV}

// needs says what a table of each engine is made of.
var needs = map[parts]parts{frmMyISAM: hasMYI | hasMYD, frmAria: hasMAI | hasMAD, frmCSV: hasCSV}

// split takes the suffix off a path. part is 0 when the file is none of those followed.
func split(path string) (base string, part parts) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 || !strings.Contains(path, "/") {
		return "", 0
	}
	return path[:i], suffixes[path[i:]]
}

// Chunk notes the files that come and go.
func (t *tables) Chunk(c *xbstream.Chunk) error {
	t.frm = ""
	switch c.Type {
	case xbstream.TypeRename:
		t.rename(c.Path, c.NewPath)
	case xbstream.TypeRemove:
		t.remove(c.Path)
	case xbstream.TypePayload:
		if strings.HasSuffix(c.Path, ".frm") && c.Offset == 0 {
			t.frm, t.head = c.Path, t.head[:0]
			return nil
		}
		t.add(c.Path)
	default:
		t.add(c.Path)
	}
	return nil
}

// Data picks the engine out of a definition.
func (t *tables) Data(p []byte) error {
	if t.frm == "" {
		return nil
	}
	t.head = append(t.head, p[:min(len(p), frmEngine+1-len(t.head))]...)
	if len(t.head) <= frmEngine {
		return nil
	}
	base, any := split(t.frm)
	t.frm = ""
	if any != 0 && strings.HasPrefix(string(t.head), frmMagic) {
		t.set(base, t.parts[base]&^any|engines[t.head[frmEngine]])
	}
	return nil
}

// add notes a file of data.
func (t *tables) add(path string) {
	if base, part := split(path); part != 0 && !strings.HasSuffix(path, ".frm") {
		t.set(base, t.parts[base]|part)
	}
}

// set keeps what is known of a table, and nothing for one of which nothing is.
func (t *tables) set(base string, p parts) {
	if t.parts == nil {
		t.parts = make(map[string]parts)
	}
	if p == 0 {
		delete(t.parts, base)
		return
	}
	t.parts[base] = p
}

// rename moves one file of a table.
func (t *tables) rename(from, to string) {
	base, part := split(from)
	newBase, newPart := split(to)
	moved := t.parts[base] & part
	if moved == 0 {
		return
	}
	t.set(base, t.parts[base]&^part)
	if newPart != 0 {
		t.set(newBase, t.parts[newBase]&^newPart|moved)
	}
}

// remove forgets a file, all files of a folder, or, when path ends in "*", those whose names begin so.
func (t *tables) remove(path string) {
	if base, part := split(path); part != 0 {
		t.set(base, t.parts[base]&^part)
		return
	}
	prefix, star := strings.CutSuffix(path, "*")
	if !star {
		prefix += "/"
	}
	for base := range t.parts {
		if rest, found := strings.CutPrefix(base, prefix); found && !strings.Contains(rest, "/") {
			delete(t.parts, base)
		}
	}
}

// bare returns the tables that have a definition but not all of their data, sorted.
func (t *tables) bare() []string {
	var all []string
	for _, base := range slices.Sorted(maps.Keys(t.parts)) {
		p := t.parts[base]
		if need := needs[p&(frmMyISAM|frmAria|frmCSV)]; p&need != need {
			all = append(all, strings.ReplaceAll(base, "/", "."))
		}
	}
	return all
}
