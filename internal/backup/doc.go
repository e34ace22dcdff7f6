// Package backup runs a backup from its source to its commit. It is the one place that knows all conditions under which
// a stream counts as a backup; the rooms below each know one of them.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/innodb"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// Errors that callers match with errors.Is.
var (
	ErrStalled    = errors.New("nothing was read for too long")
	ErrMaxRuntime = errors.New("the longest allowed run time is over")
	ErrShrunk     = errors.New("the backup is suspiciously small")
	ErrPosition   = errors.New("the stream's metadata do not make a backup")
)

// Source is where a stream comes from. Its io.EOF must be a proven end: a source that failed returns its failure in
// place of it.
type Source interface {
	io.Reader
	// Stop makes a blocked Read return soon and ends what is behind the source. It may be called more than once, and
	// while a Read is under way.
	Stop() error
}

// Reporter is a Source that can tell more about itself after its end.
type Reporter interface {
	Report() mariadb.Report
}

// Options says what is backed up, and how.
type Options struct {
	// Start starts the source. What the source says of itself is written to log.
	Start func(ctx context.Context, log io.Writer) (Source, error)
	// Source names the kind of the source in the manifest: "tool" or "stdin".
	Source      string
	ToolOptions []string // names of the user's options for the tool, without their values

	Codec      *codec.Codec
	Level      int
	LevelText  string // as the user asked: "auto" or a number
	Jobs       int    // compression workers; below 1: one a core
	BlockSize  int    // bytes of raw stream; 0: the pipeline's default
	VolumeSize int64  // stored bytes; 0: one volume
	LimitRate  int64  // raw bytes a second; 0: no limit

	// Recipients are who can open what is written; nil leaves it plain. A backup in a repository gets a key of its own,
	// which is sealed to them; a plain stream becomes one age file to them.
	Recipients *encrypt.Recipients
	// CheckPages looks at the checksums of InnoDB's pages too. Bad ones don't stop the backup: it gets a warning.
	CheckPages bool

	MaxRuntime   time.Duration // 0: no limit
	StallTimeout time.Duration // longest time without a byte from the source; 0: no limit

	FailOnShrink bool // a suspiciously small backup is not committed
	AnyStream    bool // accept a well-formed stream that is not a whole backup

	Meter   *pipeline.Meter // counts; nil is fine
	OnPhase func(string)    // told what is being done; called from several goroutines; nil is fine
}

// Result is what a finished run knows of itself.
type Result struct {
	Manifest *catalog.Manifest
	Failed   []error // repositories that did not get the backup while others did
	// Details belong to the manifest's warnings and name tables, which the manifest must not.
	Details []string
	// Key is the backup's own key, which is sealed to the recipients and not kept elsewhere; nil if the backup is not
	// encrypted or in no repository. It is a secret, good for a look at what was just written.
	Key *encrypt.Key
	// Pages counts what Options.CheckPages looked at.
	Pages   innodb.Stats
	Phases  []mariadb.Phase
	Elapsed time.Duration
}

// run is one backup under way.
type run struct {
	options Options
	started time.Time
	log     *logBuffer
	source  Source
	key     *encrypt.Key

	index    catalog.IndexBuilder
	metadata mariadb.Metadata
	tables   tables
	pages    *pages // nil unless they are checked
	checker  *xbstream.Checker
	packed   pipeline.PackResult
	details  []string
}

// newRun prepares a run and fills in the defaults.
func newRun(o Options) (*run, error) {
	if o.Meter == nil {
		o.Meter = new(pipeline.Meter)
	}
	if o.BlockSize == 0 {
		o.BlockSize = pipeline.DefaultBlockSize
	}
	if o.Jobs < 1 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	if o.OnPhase == nil {
		o.OnPhase = func(string) {}
	}
	log, err := newLogBuffer()
	if err != nil {
		return nil, err
	}
	r := &run{options: o, started: time.Now().UTC(), log: log}
	expect := xbstream.ExpectBackup
	if o.AnyStream {
		expect = xbstream.ExpectAny
	}
	shown := handlers{&r.index, &r.metadata, &r.tables}
	if o.CheckPages {
		r.pages = newPages()
		shown = append(shown, r.pages)
	}
	r.checker = xbstream.NewChecker(xbstream.Options{Handler: shown, Expect: expect})
	return r, nil
}

// result describes a run that has ended well.
func (r *run) result(m *catalog.Manifest) *Result {
	result := &Result{Manifest: m, Key: r.key, Details: r.details, Elapsed: time.Since(r.started)}
	if reporter, ok := r.source.(Reporter); ok {
		result.Phases = reporter.Report().Phases
	}
	if r.pages != nil {
		result.Pages = r.pages.stats
	}
	return result
}

// handlers shows a stream to several handlers.
type handlers []xbstream.Handler

func (h handlers) Chunk(c *xbstream.Chunk) error {
	for _, handler := range h {
		if err := handler.Chunk(c); err != nil {
			return err
		}
	}
	return nil
}

func (h handlers) Data(p []byte) error {
	for _, handler := range h {
		if err := handler.Data(p); err != nil {
			return err
		}
	}
	return nil
}

// stream starts the source and packs all of it into dst. When it returns nil the source has ended well, every byte was
// taken by dst, and the stream is complete in itself.
func (r *run) stream(ctx context.Context, dst pipeline.Volumes) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.options.MaxRuntime > 0 {
		timer := time.AfterFunc(r.options.MaxRuntime, func() {
			cancel(fmt.Errorf("%w (%s)", ErrMaxRuntime, r.options.MaxRuntime))
		})
		defer timer.Stop()
	}
	if r.source, err = r.options.Start(ctx, r.log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.source.Stop()) }()
	watched := newWatchdog(r.limited(ctx), r.options.StallTimeout, cancel)
	defer watched.stop()
	r.packed, err = pipeline.Pack(ctx, dst, watched, pipeline.PackOptions{
		Codec: r.options.Codec, Level: r.options.Level, Jobs: r.options.Jobs,
		BlockSize: r.options.BlockSize, VolumeSize: r.options.VolumeSize,
		Check: inPieces{r.checker}, OnBlock: r.index.Block, Meter: r.options.Meter,
		Interrupt: func() { r.source.Stop() }, // its error is returned by the deferred call
	})
	if err != nil {
		return r.blame(err)
	}
	return r.checker.Close()
}

// inPieces writes what is written to it in pieces that stay in a core's cache while one handler after the other looks at
// them.
type inPieces struct{ io.Writer }

// checkPiece is the size of a piece in bytes. The check of pages costs half as much as in whole blocks of 4 MiB.
const checkPiece = 256 << 10

func (w inPieces) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var wrote int
		wrote, err = w.Writer.Write(p[n:min(n+checkPiece, len(p))])
		n += wrote
	}
	return n, err
}

// blame returns the error that is at the root of err: a stream that breaks off because its source failed is the
// source's failure.
func (r *run) blame(err error) error {
	var damage *xbstream.Error
	reporter, ok := r.source.(Reporter)
	if !ok || !errors.As(err, &damage) {
		return err
	}
	if stopErr := r.source.Stop(); stopErr != nil {
		return err // it is reported by the caller
	}
	report := reporter.Report()
	if report.Stopped || report.ExitCode == 0 {
		return err
	}
	_, failure := r.source.Read(make([]byte, 1))
	return errors.Join(failure, err)
}
