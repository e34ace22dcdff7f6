package mariadb

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mbwrap/mbwrap/xbstream"
)

// ErrNoMetadata is returned by [Metadata.Parse] when the stream held no checkpoints file: it is not a whole backup.
var ErrNoMetadata = errors.New("stream has no checkpoints file")

// metadataPrefixes are the two name sets: the tool's up to 11.0, and from 11.1 on.
var metadataPrefixes = []string{"xtrabackup_", "mariadb_backup_"}

// Metadata collects the small files in which mariadb-backup describes its backup, out of the stream as it passes:
// checkpoints, info, binary log, replica and Galera position under both name sets, backup-my.cnf, and the list of
// corrupt pages. It is an [xbstream.Handler]; the zero value is ready. It belongs to one goroutine.
//
// A file sent again replaces the earlier one. The order of chunks is the checker's business.
type Metadata struct {
	files   map[string]*metadataFile
	current *metadataFile // that gets the payload now passing, nil if it is none of ours
}

type metadataFile struct {
	name  string // as in the stream
	text  []byte
	ended bool
}

var _ xbstream.Handler = (*Metadata)(nil)

// purpose tells which metadata file path is: its name without the version's prefix, "" if it is none.
func purpose(path string) string {
	if path == "backup-my.cnf" || path == "innodb_corrupted_pages" {
		return path
	}
	for _, prefix := range metadataPrefixes {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			switch rest {
			case "checkpoints", "info", "binlog_info", "slave_info", "galera_info":
				return rest
			}
		}
	}
	return ""
}

// Chunk notes the head of a chunk. It fails when a metadata file is larger than 1 MiB or full of holes.
func (m *Metadata) Chunk(c *xbstream.Chunk) error {
	m.current = nil
	kind := purpose(c.Path)
	if kind == "" {
		return nil
	}
	switch c.Type {
	case xbstream.TypePayload:
		return m.open(kind, c)
	case xbstream.TypeEnd:
		f := m.file(kind, c.Path)
		f.ended = true
	case xbstream.TypeRemove:
		delete(m.files, kind)
	case xbstream.TypeSparse, xbstream.TypeSeek, xbstream.TypeRename:
		return fmt.Errorf("metadata file %q: unexpected chunk of type %q", c.Path, c.Type)
	}
	return nil
}

// open prepares for the payload of c.
func (m *Metadata) open(kind string, c *xbstream.Chunk) error {
	f := m.file(kind, c.Path)
	if f.ended || c.Offset == 0 {
		*f = metadataFile{name: c.Path}
	}
	if c.Size < 0 || c.Size > maxMetadata-int64(len(f.text)) {
		return fmt.Errorf("metadata file %q is larger than %d bytes", c.Path, maxMetadata)
	}
	m.current = f
	return nil
}

// file returns the entry of kind, a new one under the name path if there is none.
func (m *Metadata) file(kind, path string) *metadataFile {
	if f := m.files[kind]; f != nil {
		return f
	}
	if m.files == nil {
		m.files = make(map[string]*metadataFile)
	}
	f := &metadataFile{name: path}
	m.files[kind] = f
	return f
}

// Data takes the next piece of the last chunk's payload.
func (m *Metadata) Data(p []byte) error {
	if m.current == nil {
		return nil
	}
	if len(p) > maxMetadata-len(m.current.text) {
		return fmt.Errorf("metadata file %q is larger than %d bytes", m.current.name, maxMetadata)
	}
	m.current.text = append(m.current.text, p...)
	return nil
}

// Parse reads what was collected. Without a complete checkpoints file the error is [ErrNoMetadata]; numbers that decide
// about chains must be readable, the rest is taken as far as it can be read.
func (m *Metadata) Parse() (Position, error) {
	var p Position
	f := m.ended("checkpoints")
	if f == nil {
		return p, ErrNoMetadata
	}
	if err := p.setCheckpoints(f.text); err != nil {
		return p, fmt.Errorf("%s: %w", f.name, err)
	}
	if f := m.ended("binlog_info"); f != nil && len(f.text) > 0 {
		if err := p.setBinlogInfo(f.text); err != nil {
			return p, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if f := m.ended("info"); f != nil {
		p.setInfo(f.text)
	}
	if f := m.ended("backup-my.cnf"); f != nil {
		p.Config = keyValues(f.text)
		p.PageSize, _ = strconv.Atoi(p.Config["innodb_page_size"])
	}
	p.Replica, p.Galera = m.line("slave_info"), m.line("galera_info")
	p.CorruptPages = m.line("innodb_corrupted_pages")
	return p, nil
}

// ended returns the file of that kind if all of it has passed.
func (m *Metadata) ended(kind string) *metadataFile {
	if f := m.files[kind]; f != nil && f.ended {
		return f
	}
	return nil
}

// line returns the text of a file without the white space around it.
func (m *Metadata) line(kind string) string {
	if f := m.ended(kind); f != nil {
		return strings.TrimSpace(string(f.text))
	}
	return ""
}
