// Package verify finds out what a backup is worth. Level Hash compares the stored bytes with their sums and needs no
// key and no decoder; level Read decodes everything and proves the stream complete.
//
// What is wrong with a backup is a Problem in the Report. An error means that it was not possible to look.
package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/pipeline"
)

// Level says how deep a verification goes.
type Level string

// Levels. Each includes the ones before.
const (
	Hash Level = "hash" // the stored bytes of every object against the sums in the manifest
	Read Level = "read" // decode every block; every checksum, order, ends, completeness; the index against the stream
)

// Levels lists the levels from the cheapest to the deepest.
func Levels() []Level { return []Level{Hash, Read} }

// ParseLevel returns the level called s.
func ParseLevel(s string) (Level, error) {
	if !slices.Contains(Levels(), Level(s)) {
		return "", fmt.Errorf("unknown verification level %q (there are %q)", s, Levels())
	}
	return Level(s), nil
}

// Options says how to verify.
type Options struct {
	Level Level           // "" stands for Read
	Jobs  int             // workers; below 1 stands for one a core
	Meter *pipeline.Meter // counts stored and raw bytes; nil is fine
}

// Problem is one thing that is wrong with a backup.
type Problem struct {
	Object    string   `json:"object"`     // name in the backup's folder, "" for the stream as a whole
	Offset    int64    `json:"offset"`     // in the object before any encryption, -1 when the whole object is meant
	RawOffset int64    `json:"raw_offset"` // in the raw stream, -1 when unknown
	Message   string   `json:"message"`
	Files     []string `json:"files"` // what is hit, as far as the index tells; the first ones
	FileCount int      `json:"file_count"`
}

func (p Problem) String() string {
	where := p.Object
	if where == "" {
		where = "stream"
	}
	if p.Offset >= 0 {
		where = fmt.Sprintf("%s at offset %d", where, p.Offset)
	}
	var text strings.Builder
	text.WriteString(where + ": " + p.Message)
	for i, f := range p.Files {
		if i == 0 {
			text.WriteString("; it hits ")
		} else {
			text.WriteString(", ")
		}
		text.WriteString(f)
	}
	if more := p.FileCount - len(p.Files); more > 0 {
		text.WriteString(fmt.Sprintf(" and %d more files", more))
	}
	return text.String()
}

// Report is what a verification found.
type Report struct {
	Server      string        `json:"server"`
	ID          string        `json:"id"`
	Level       Level         `json:"level"`
	OK          bool          `json:"ok"`
	Problems    []Problem     `json:"problems"`
	Objects     int           `json:"objects"`
	StoredBytes int64         `json:"stored_bytes"` // read and hashed
	RawBytes    int64         `json:"raw_bytes"`    // decoded and checked
	Blocks      int64         `json:"blocks"`
	Chunks      int64         `json:"chunks"`
	Files       int64         `json:"files"`
	Duration    time.Duration `json:"-"`
	Seconds     float64       `json:"seconds"`
}

// checker is one verification under way.
type checker struct {
	backup  *catalog.Backup
	options Options

	mutex  sync.Mutex // guards report and its problems
	report *Report
}

// maxProblems bounds the report of a backup that is nothing but damage.
const maxProblems = 1000

// Run verifies a backup. The Report is complete unless there is an error.
func Run(ctx context.Context, b *catalog.Backup, o Options) (*Report, error) {
	if o.Level == "" {
		o.Level = Read
	}
	if o.Jobs < 1 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	if o.Meter == nil {
		o.Meter = new(pipeline.Meter)
	}
	start := time.Now()
	c := &checker{backup: b, options: o, report: &Report{
		Server: b.Server, ID: b.ID, Level: o.Level, Problems: []Problem{},
	}}
	if b.Manifest == nil {
		c.problem(whole(catalog.ManifestObject, fmt.Sprint(b.Err)))
	} else if err := c.run(ctx); err != nil {
		return nil, fmt.Errorf("verify %s: %w", b.ID, err)
	}
	r := c.report
	r.OK = len(r.Problems) == 0
	r.Duration = time.Since(start)
	r.Seconds = r.Duration.Seconds()
	return r, nil
}

// whole returns a problem of an object as a whole.
func whole(object, message string) Problem {
	return Problem{Object: object, Offset: -1, RawOffset: -1, Message: message, Files: []string{}}
}

func (c *checker) problem(p Problem) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.report.Problems) < maxProblems {
		c.report.Problems = append(c.report.Problems, p)
	}
}

// unreadable reports an object that can't be read as a problem: to whoever needs the data back a bad disk and a wrong
// byte are the same. The end of ctx is no problem of the backup and is returned.
func (c *checker) unreadable(ctx context.Context, object string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist):
		c.problem(whole(object, "it is missing"))
	case errors.Is(err, fs.ErrPermission):
		return err
	default:
		c.problem(whole(object, err.Error()))
	}
	return nil
}

// readerAt makes an io.Reader of an object.
func reader(r io.ReaderAt, size int64) io.Reader { return io.NewSectionReader(r, 0, size) }
