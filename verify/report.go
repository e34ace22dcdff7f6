package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
)

// Problem is one thing that is wrong with a backup.
type Problem struct {
	Object string `json:"object"` // name in the backup's folder, "" for the stream as a whole, or for what a restore showed
	Block  int64  `json:"block"`  // number of the block that is hit, from 0; -1 when it is no block, or unknown
	Offset int64  `json:"offset"` // in the object before any encryption, -1 when the whole object is meant
	// StoredOffset is where the damage begins in the object as it is stored: where nothing is encrypted the same as
	// Offset, else the beginning of the first damaged chunk of the age file. -1 when the whole object is meant.
	StoredOffset int64    `json:"stored_offset"`
	RawOffset    int64    `json:"raw_offset"` // in the raw stream, -1 when unknown
	Message      string   `json:"message"`
	Files        []string `json:"files"` // what is hit, as far as the index tells; the first ones
	FileCount    int      `json:"file_count"`
	Tables       []string `json:"tables"` // that these files belong to, as "db.table"; the first ones
}

// whole returns a problem of an object as a whole.
func whole(object, message string) Problem {
	return Problem{
		Object: object, Block: -1, Offset: -1, StoredOffset: -1, RawOffset: -1, Message: message, Files: []string{}, Tables: []string{},
	}
}

// String returns the problem on one line. Names in it are as they are in the backup.
func (p Problem) String() string {
	text := p.where() + ": " + p.Message
	if len(p.Files) > 0 {
		text += "; it hits " + list(p.Files, p.FileCount, "files")
	}
	return text
}

// where names the place of the damage.
func (p *Problem) where() string {
	where := p.Object
	if where == "" {
		where = "stream"
	}
	if p.Offset >= 0 {
		where += fmt.Sprintf(" at offset %d", p.Offset)
	}
	return where
}

// list joins the first of count names.
func list(names []string, count int, what string) string {
	text := strings.Join(names, ", ")
	if more := count - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more %s", more, what)
	}
	return text
}

// Restorable says what can still be made of a backup.
type Restorable string

// What can be made of a backup, as far as it was looked at.
const (
	RestorableAll     Restorable = "all"     // all of it
	RestorableTables  Restorable = "tables"  // a server, without the tables in Report.LostTables
	RestorableFiles   Restorable = "files"   // files, but no server: what a prepare needs is lost
	RestorableNothing Restorable = "nothing" // not a single file
	RestorableUnknown Restorable = "unknown" // something is damaged, and only level Read can tell what it hits
)

// LostFile is a file that can't be restored in full.
type LostFile struct {
	Path  string `json:"path"`  // where it would end up
	Table string `json:"table"` // "db.table", "" if it belongs to none
	Size  int64  `json:"size"`
	Why   string `json:"why"` // "damaged", "cut" or "bad pages"
}

// Sample says how much of a backup was looked at. Nothing is known of the rest.
type Sample struct {
	Fraction      float64 `json:"fraction"` // as asked for
	Seed          uint64  `json:"seed"`     // chooses the same blocks again
	Blocks        int64   `json:"blocks"`
	OfBlocks      int64   `json:"of_blocks"`
	RawBytes      int64   `json:"raw_bytes"`
	OfRawBytes    int64   `json:"of_raw_bytes"`
	StoredBytes   int64   `json:"stored_bytes"` // of the volumes, before any encryption
	OfStoredBytes int64   `json:"of_stored_bytes"`
}

// Report is what a verification found. OK says that nothing wrong was found in what was read: all of the backup, or the
// Sample. Lists are bounded; the counts beside them are not.
type Report struct {
	Server    string `json:"server"`
	ID        string `json:"id"`
	Level     Level  `json:"level"`
	Encrypted bool   `json:"encrypted"`
	OK        bool   `json:"ok"`

	Problems     []Problem `json:"problems"`
	ProblemCount int64     `json:"problem_count"`

	Objects     int   `json:"objects"`      // read and hashed as a whole
	StoredBytes int64 `json:"stored_bytes"` // of these objects
	RawBytes    int64 `json:"raw_bytes"`    // decoded and checked
	Blocks      int64 `json:"blocks"`       // that the index names
	Chunks      int64 `json:"chunks"`
	Files       int64 `json:"files"`

	Sample *Sample    `json:"sample"` // nil: everything was read
	Pages  *PageCount `json:"pages"`  // nil below level Pages
	Trial  *Trial     `json:"trial"`  // nil below level Restore

	// What can still be restored, and what can't. Below level Read nothing is known of files.
	Restorable     Restorable `json:"restorable"`
	Lost           []LostFile `json:"lost"`
	LostFiles      int64      `json:"lost_files"`
	LostBytes      int64      `json:"lost_bytes"` // the sizes of the lost files
	LostTables     []string   `json:"lost_tables"`
	LostTableCount int64      `json:"lost_table_count"`
	LostMore       bool       `json:"lost_more"` // what lies behind the damage is unknown: more is lost than is listed
	IntactFiles    int64      `json:"intact_files"`
	IntactBytes    int64      `json:"intact_bytes"`

	Duration time.Duration `json:"-"`
	Seconds  float64       `json:"seconds"`
}

// PageCount counts pages of InnoDB.
type PageCount struct {
	Files      int64    `json:"files"`
	Pages      int64    `json:"pages"` // seen; the next three are among them
	Empty      int64    `json:"empty"` // never used
	Unchecked  int64    `json:"unchecked"`
	Bad        int64    `json:"bad"`
	NotChecked int64    `json:"files_not_checked"`
	Why        []string `json:"why"` // the first of the files that were not checked, with the reason
}

func newReport(b *catalog.Backup, l Level) *Report {
	return &Report{
		Server: b.Server, ID: b.ID, Level: l, Encrypted: b.Manifest != nil && b.Manifest.Encrypted,
		Problems: []Problem{}, Lost: []LostFile{}, LostTables: []string{},
	}
}

// end sums up.
func (r *Report) end(took time.Duration) {
	r.OK = r.ProblemCount == 0
	r.Duration = took
	r.Seconds = took.Seconds()
	r.settle()
}

// settle says what can be restored, if nothing has said it yet.
func (r *Report) settle() {
	switch {
	case r.Restorable != "":
	case r.OK:
		r.Restorable = RestorableAll
	default:
		r.Restorable = RestorableUnknown
	}
}

// unreadable reports an object that can't be read as a problem: to whoever needs the data back a bad disk and a wrong
// byte are the same. What is not the object's fault is returned.
func (c *checker) unreadable(ctx context.Context, object string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case outside(err):
		return err
	case errors.Is(err, fs.ErrNotExist):
		c.problem(whole(object, "it is missing"))
	default:
		c.problem(whole(object, err.Error()))
	}
	return nil
}

// outside tells whether err is about something else than what is stored: rights, a key, the network, a version that is
// too old.
func outside(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, catalog.ErrFormat) ||
		isA[*catalog.KeyError](err) || isA[*net.OpError](err) || isA[*url.Error](err)
}

// isA tells whether err wraps an error of type T.
func isA[T error](err error) bool {
	_, found := errors.AsType[T](err)
	return found
}
