// Package verify finds out what a backup is worth. Level Hash compares the stored bytes with their sums and needs no key
// and no decoder; Read decodes everything and proves the stream complete; Pages looks at every page of InnoDB on the way;
// Restore makes a server of the backup and lets it check its tables.
//
// What is wrong with a backup is a Problem in the Report, which also tells what can still be restored. An error means
// that it was not possible to look.
package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/pipeline"
)

// Level says how deep a verification goes.
type Level string

// Levels. Each includes the ones before.
const (
	Hash    Level = "hash"    // the stored bytes of every object against the sums in the manifest
	Read    Level = "read"    // decode every block; every checksum, order, ends, completeness; the index against the stream
	Pages   Level = "pages"   // and the checksum of every page of InnoDB's files
	Restore Level = "restore" // and restore it, start a server on it, and have the server check every table
)

// Levels lists the levels from the cheapest to the deepest.
func Levels() []Level { return []Level{Hash, Read, Pages, Restore} }

// ParseLevel returns the level called s.
func ParseLevel(s string) (Level, error) {
	if !slices.Contains(Levels(), Level(s)) {
		return "", fmt.Errorf("unknown verification level %q (there are %q)", s, Levels())
	}
	return Level(s), nil
}

// atLeast tells whether l includes other.
func (l Level) atLeast(other Level) bool {
	return slices.Index(Levels(), l) >= slices.Index(Levels(), other)
}

// Options says how to verify.
type Options struct {
	Level Level           // "" stands for Read
	Jobs  int             // workers; below 1 stands for one a core
	Meter *pipeline.Meter // counts stored and raw bytes; nil is fine

	// Sample is which part of the blocks to read, chosen at random; 0, and 1 or more, stand for all. The first and the
	// last block are always read. What is wrong elsewhere stays unseen, and the Report says so. Level Restore can't be
	// had of a sample.
	Sample float64
	Seed   uint64 // chooses the sample; 0 stands for another one each time

	Trial TrialOptions // for level Restore

	OnPhase func(string) // told what is being done, as it begins; nil is fine
	// OnTotal is told once how many bytes Meter.Raw, or at level Hash Meter.Stored, will count in all, as far as that can
	// be known; nil is fine.
	OnTotal func(int64)
}

// sampled tells whether only a part is read.
func (o *Options) sampled() bool { return o.Sample > 0 && o.Sample < 1 }

// fill replaces what was left out, and refuses what can't be.
func (o *Options) fill() error {
	if o.Level == "" {
		o.Level = Read
	}
	if !slices.Contains(Levels(), o.Level) {
		return fmt.Errorf("unknown verification level %q", o.Level)
	}
	if o.Jobs < 1 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	if o.Meter == nil {
		o.Meter = new(pipeline.Meter)
	}
	if o.OnPhase == nil {
		o.OnPhase = func(string) {}
	}
	if o.OnTotal == nil {
		o.OnTotal = func(int64) {}
	}
	if !(o.Sample >= 0) {
		return fmt.Errorf("a sample of %v is no part of a backup", o.Sample)
	}
	if o.sampled() && o.Level == Restore {
		return errors.New("a restore reads all of a backup: level restore can't be had of a sample")
	}
	if o.Level == Restore {
		return o.Trial.check()
	}
	return nil
}

// Names of the phases.
const (
	phaseHash  = "hashing"
	phaseRead  = "reading"
	phaseStart = "starting"
	phaseCheck = "checking"
)

// checker is one verification under way.
type checker struct {
	backup  *catalog.Backup
	options Options

	mutex  sync.Mutex // guards report, but for what only the reading goroutine counts
	report *Report

	altered              bool  // the backup is not as the holder of its key left it
	treeBytes, redoBytes int64 // of all files of the backup, and of the redo log among them

	// These belong to the goroutine that is handed the blocks.
	blocks      *blockMap                        // nil without an index
	stored      func(volume int, at int64) int64 // where a byte of an encrypted volume is stored; nil when nothing is known
	lostVersion func(version int) bool           // of damaged blocks; nil before the reading has ended
	lostPaths   map[string]string                // files that are found damaged in the stream, with the reason
}

// maxProblems bounds the report of a backup that is nothing but damage.
const maxProblems = 1000

// Run verifies a backup. The Report is complete unless there is an error.
//
// Level Hash needs no key. From Read on an encrypted backup must have been unlocked; the error is a *catalog.KeyError
// otherwise. Errors of level Restore match those of packages restore, mariadb and mariadb/scratch; a *restore.SpaceError
// says that there is no room for the trial. Whatever happens, nothing of the trial is left behind.
func Run(ctx context.Context, b *catalog.Backup, o Options) (*Report, error) {
	start := time.Now()
	if err := o.fill(); err != nil {
		return nil, fmt.Errorf("verify %s: %w", b.ID, err)
	}
	c := &checker{backup: b, options: o, report: newReport(b, o.Level)}
	if errors.Is(b.Err, catalog.ErrFormat) {
		return nil, fmt.Errorf("verify %s: %w", b.ID, b.Err)
	}
	if b.Manifest == nil {
		c.problem(whole(catalog.ManifestObject, fmt.Sprint(b.Err)))
	} else if err := c.run(ctx); err != nil {
		return nil, fmt.Errorf("verify %s: %w", b.ID, err)
	}
	c.report.end(time.Since(start))
	return c.report, nil
}

// problem adds p to the report.
func (c *checker) problem(p Problem) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.report.ProblemCount++
	if len(c.report.Problems) < maxProblems {
		c.report.Problems = append(c.report.Problems, p)
	}
}

// full tells whether the report has no room for more problems.
func (c *checker) full() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.report.Problems) >= maxProblems
}

// reader makes an io.Reader of an object.
func reader(r io.ReaderAt, size int64) io.Reader { return io.NewSectionReader(r, 0, size) }
