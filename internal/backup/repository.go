package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/mariadb/version"
	"github.com/mbwrap/mbwrap/sinks"
)

// Target says where a backup goes.
type Target struct {
	Repositories []*catalog.Repository
	Lost         []error       // repositories that could not even be opened: the others get the backup, with a warning
	Server       string        // the name it is filed under
	WaitLock     time.Duration // how long to wait for another run to end
	Mbwrap       string        // this program's version, for the manifest
	Host         string        // this machine's name, for the manifest and the lock
}

// Run takes a backup into the target's repositories. It returns a Result only if at least one of them holds a committed
// backup; otherwise nothing of the run is left in any of them, as far as they can still be reached.
func Run(ctx context.Context, t Target, o Options) (*Result, error) {
	r, err := newRun(o)
	if err != nil {
		return nil, err
	}
	pending, err := begin(ctx, t, r)
	if err != nil {
		return nil, err
	}
	manifest, err := r.into(ctx, t, pending)
	if err != nil {
		return nil, errors.Join(err, pending.Abort(ctx))
	}
	result := r.result(manifest)
	result.Failed = slices.Concat(t.Lost, pending.Failed())
	return result, nil
}

// lockOwner is what a lock says of the run that holds it.
type lockOwner struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Command string    `json:"command"`
}

// lockPoll is how often a held lock is tried again.
const lockPoll = 250 * time.Millisecond

// begin starts the pending backup, and waits for another run to end if it is to.
func begin(ctx context.Context, t Target, r *run) (*catalog.Pending, error) {
	owner, err := json.Marshal(lockOwner{t.Host, os.Getpid(), r.started, "backup"})
	if err != nil {
		return nil, err
	}
	if r.key, err = newKey(r.options.Recipients); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(t.WaitLock)
	for {
		pending, err := catalog.Begin(ctx, t.Repositories, t.Server, catalog.BeginOptions{
			Type: catalog.Full, Started: r.started, Codec: r.options.Codec, Owner: owner,
			Key: r.key, Recipients: r.options.Recipients,
		})
		var locked *sinks.LockedError
		if err == nil || !errors.As(err, &locked) || !time.Now().Before(deadline) {
			return pending, err
		}
		r.options.OnPhase("waiting for another run")
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

// newKey makes a backup's own key, a post-quantum one if its recipients are: else it would be as weak as the key. Without
// recipients there is none.
func newKey(to *encrypt.Recipients) (*encrypt.Key, error) {
	if to == nil {
		return nil, nil
	}
	return encrypt.NewKey(to.PostQuantum())
}

// into streams into the pending backup and commits it.
func (r *run) into(ctx context.Context, t Target, pending *catalog.Pending) (*catalog.Manifest, error) {
	r.options.OnPhase("backup")
	if err := r.stream(ctx, pending.Volumes(ctx)); err != nil {
		return nil, err
	}
	m, err := r.judge()
	if err != nil {
		return nil, err
	}
	m.Mbwrap, m.Host = t.Mbwrap, t.Host
	if err := r.compare(ctx, t, m); err != nil {
		return nil, err
	}
	for _, err := range slices.Concat(t.Lost, pending.Failed()) {
		m.Warnings = append(m.Warnings, "another repository did not get this backup: "+err.Error())
	}
	log, err := r.log.Close()
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r.options.OnPhase("commit")
	r.times(m)
	return m, pending.Commit(ctx, m, r.index.Encode(), log)
}

// judge decides whether what the source delivered is a backup, and describes it. The stream itself has been proven
// whole by then.
func (r *run) judge() (*catalog.Manifest, error) {
	o := r.options
	stats := r.checker.Stats()
	m := &catalog.Manifest{
		Type: catalog.Full, Started: r.started, Source: o.Source, ToolOptions: o.ToolOptions,
		Codec: o.Codec.Name(), Level: o.LevelText,
		RawBytes: r.packed.RawSize, Blocks: r.packed.Blocks, BlockSize: int64(o.BlockSize),
		Chunks: stats.Chunks, Files: int64(stats.Files),
	}
	if o.Level != 0 || o.Codec.Name() != "none" {
		m.Levels = []catalog.LevelCount{{Level: o.Level, Blocks: r.packed.Blocks}}
	}
	if o.Recipients != nil {
		m.Encrypted, m.Recipients = true, o.Recipients.Strings()
	}
	if reporter, ok := r.source.(Reporter); ok {
		report := reporter.Report()
		if report.Tool != (version.Number{}) {
			m.ToolVersion = report.Tool.String()
		}
		m.Timings.Locked = max(report.DDLBlocked, report.CommitsBlocked).Seconds()
	}
	if stats.Ignored > 0 {
		m.Warnings = append(m.Warnings, fmt.Sprintf("%d chunks of unknown types that may be ignored are in the stream", stats.Ignored))
	}
	r.bareTables(m)
	if r.pages != nil {
		r.pages.report(r, m)
	}
	err := r.position(m)
	if o.AnyStream {
		return m, nil // what it is a stream of is nobody's business
	}
	return m, err
}

// position takes the LSNs, the binary log's position and the versions out of the stream's metadata.
func (r *run) position(m *catalog.Manifest) error {
	p, err := r.metadata.Parse()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPosition, err)
	}
	from := uint64(0)
	if p.Incremental {
		// Whoever made the stream chose its parent; that it begins at the end of one is checked before a restore.
		from, m.Type = p.FromLSN, catalog.Incremental
	}
	if err := p.CheckLSN(from); err != nil {
		return fmt.Errorf("%w: %w", ErrPosition, err)
	}
	if p.Incremental {
		return fmt.Errorf("%w: it is an incremental backup, which this version does not file", ErrPosition)
	}
	m.FromLSN, m.ToLSN, m.LastLSN = p.FromLSN, p.ToLSN, p.LastLSN
	m.ServerVersion, m.Partial = p.ServerVersion, p.Partial
	if m.ToolVersion == "" {
		m.ToolVersion = p.ToolVersion
	}
	if p.Binlog.File != "" {
		m.Binlog = &catalog.Binlog{File: p.Binlog.File, Position: p.Binlog.Pos, GTID: p.Binlog.GTID}
	}
	if p.CorruptPages != "" {
		r.warn(m, "the tool let corrupt pages through (--log-innodb-page-corruption)",
			"corrupt pages: "+strings.Join(strings.Fields(p.CorruptPages), " "))
	}
	return nil
}

// warn adds a warning to the manifest, and to the log and the result the details, which may name tables.
func (r *run) warn(m *catalog.Manifest, warning string, details ...string) {
	m.Warnings = append(m.Warnings, warning)
	for _, d := range details {
		r.details = append(r.details, d)
		fmt.Fprintf(r.log, "mbwrap: %s\n", d) // the log fails for want of memory only
	}
}

// maxBare is how many tables without data are named.
const maxBare = 20

// bareTables warns of tables whose data the tool has lost.
func (r *run) bareTables(m *catalog.Manifest) {
	bare := r.tables.bare()
	if len(bare) == 0 {
		return
	}
	var details []string
	for _, table := range bare[:min(len(bare), maxBare)] {
		details = append(details, fmt.Sprintf("table %q has a definition in the backup, but not all of its data", table))
	}
	r.warn(m, fmt.Sprintf("%d tables have a definition in the backup, but not all of their data: "+
		"were they renamed or made anew while it ran? take another one", len(bare)), details...)
}

// shrunk is the part of the previous backup's raw size below which a backup is suspicious.
const shrunk = 0.5

// compare looks at the size of the previous good backup: one that is suddenly half as large deserves a look. A repository
// that can't be asked does not stop the backup, unless it was to be refused for its size.
func (r *run) compare(ctx context.Context, t Target, m *catalog.Manifest) error {
	var failed error
	for _, repository := range t.Repositories {
		previous, err := repository.Find(ctx, t.Server, catalog.Latest)
		if errors.Is(err, catalog.ErrNoBackup) {
			continue
		}
		if err != nil {
			failed = errors.Join(failed, &catalog.RepositoryError{Location: repository.Location(), Err: err})
			continue
		}
		if previous.Manifest.Partial != m.Partial || previous.Manifest.Type != m.Type ||
			float64(m.RawBytes) >= shrunk*float64(previous.Manifest.RawBytes) {
			return nil
		}
		text := fmt.Sprintf("%d bytes, while %s had %d", m.RawBytes, previous.ID, previous.Manifest.RawBytes)
		if r.options.FailOnShrink {
			return fmt.Errorf("%w: %s", ErrShrunk, text)
		}
		m.Warnings = append(m.Warnings, fmt.Sprintf("%v: %s", ErrShrunk, text))
		return nil
	}
	if failed != nil && !r.options.FailOnShrink {
		m.Warnings = append(m.Warnings, "the size could not be compared with that of the last backup: "+failed.Error())
		return nil
	}
	return failed
}

// times fills in when and where the time went.
func (r *run) times(m *catalog.Manifest) {
	m.Finished = time.Now().UTC()
	elapsed := m.Finished.Sub(r.started)
	t := r.options.Meter.Times()
	locked := m.Timings.Locked
	m.Timings = catalog.Timings{
		Total: elapsed.Seconds(), Source: t.Source.Seconds(), Check: t.Check.Seconds(), Compress: t.Work.Seconds(),
		Sink: t.Sink.Seconds(), Locked: locked, Bottleneck: t.Bottleneck(elapsed, r.options.Jobs),
	}
}
