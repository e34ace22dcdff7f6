package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/internal/backup"
	"github.com/mbwrap/mbwrap/internal/progress"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/verify"
	"github.com/mbwrap/mbwrap/xbstream"
)

// backupRun is one run of the command.
type backupRun struct {
	*backupOptions
	env      *Env
	host     string
	meter    *pipeline.Meter
	reporter *progress.Reporter
	target   backup.Target
	reached  *mariadb.ConnectOptions // how the look before the run found the server; nil without one
}

// runHooked runs a backup and tells everyone who wants to know how it ended. A hook that does not work makes a good
// backup one with a warning.
func runHooked(ctx context.Context, o *backupOptions, env *Env) error {
	started := env.Now()
	r := &backupRun{backupOptions: o, env: env, meter: new(pipeline.Meter)}
	m, err := r.run(ctx)
	// The end of ctx must be known before anybody is told: a room may only know that it was cancelled.
	err = withCause(ctx, err)
	report := outcomeOf(err, m, started, env.Now())
	report.Server, report.Host = r.target.Server, r.host
	if report.Server == "" { // the run did not come so far
		report.Server, _ = o.serverName(env)
	}
	failed := o.call(ctx, env, report)
	for _, failure := range failed {
		env.warnf("%v", failure)
	}
	if err == nil && len(failed) > 0 {
		return reported(errWarnings)
	}
	return err
}

// run takes the backup. The manifest is there if and only if the backup is, whatever the error says besides.
func (r *backupRun) run(ctx context.Context) (*catalog.Manifest, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	o, err := r.options(ctx)
	if err != nil {
		return nil, err
	}
	if r.To == "" {
		if err := r.needRepo(); err != nil {
			return nil, err
		}
	}
	// The server first: a run that can't succeed leaves no new repository behind.
	total, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	if r.To == "" {
		if err := r.open(ctx); err != nil {
			return nil, err
		}
		last, err := r.lookBack(ctx)
		if err != nil {
			return nil, err
		}
		if total == 0 {
			total = last
		}
	}
	reporter, end := r.env.watch("backup", total, r.meter)
	r.reporter = reporter
	defer end()
	result, err := r.do(ctx, o)
	end()
	if err != nil {
		return nil, r.explain(err)
	}
	return result.Manifest, r.tell(ctx, result)
}

// explain gives an error the hint that only this command knows.
func (r *backupRun) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrExist) && r.To != "":
		return withHint(&backup.SinkError{Err: err}, "mbwrap overwrites nothing: is there another name for it?")
	case r.Stdin && errors.Is(err, xbstream.ErrMagic):
		return withHint(err, "is standard input the plain output of mariadb-backup --stream=mbstream, neither "+
			"compressed nor encrypted?")
	case as[*xbstream.Error](err) && !errors.Is(err, xbstream.ErrEmpty) && !errors.Is(err, xbstream.ErrMetadata):
		return withHint(err, "did the source write all of it? run it alone and look at what it says")
	}
	return err
}

// options makes the run's options out of the flags.
func (r *backupRun) options(ctx context.Context) (backup.Options, error) {
	row, level, err := r.codec()
	if err != nil {
		return backup.Options{}, err
	}
	to, err := r.recipients(ctx, r.env)
	if err != nil {
		return backup.Options{}, err
	}
	if r.host, err = r.env.Hostname(); err != nil {
		return backup.Options{}, fmt.Errorf("find the name of this host: %w", err)
	}
	o := backup.Options{
		Start: r.startTool, Source: "tool", ToolOptions: optionNames(r.rest),
		Codec: row, Level: level, LevelText: r.Level, Jobs: r.Jobs, VolumeSize: r.VolumeSize, LimitRate: r.LimitRate,
		MaxRuntime: r.MaxRuntime, StallTimeout: r.StallTimeout,
		FailOnShrink: r.FailOnShrink, AnyStream: r.Expect == "any", Recipients: to, CheckPages: r.CheckPages,
		Meter: r.meter, OnPhase: r.phase,
	}
	if r.Stdin {
		o.Start, o.Source = r.startStdin, "stdin"
	}
	return o, nil
}

// optionNames returns the names of options, without their values, which may be names of databases.
func optionNames(args []string) []string {
	var names []string
	for _, a := range args {
		if name, _, _ := strings.Cut(a, "="); strings.HasPrefix(name, "-") {
			names = append(names, name)
		}
	}
	return names
}

// open opens or creates the repositories.
func (r *backupRun) open(ctx context.Context) error {
	server, err := r.serverName(r.env)
	if err != nil {
		return err
	}
	if err := catalog.CheckServer(server); err != nil {
		return &usageError{err: err, hint: "under which name are the backups to be filed? give --server NAME"}
	}
	r.target = backup.Target{Server: server, WaitLock: r.WaitLock, Mbwrap: programVersion(), Host: r.host}
	for _, place := range r.Repos {
		repository, err := r.openOne(ctx, place)
		switch {
		case err == nil:
			r.target.Repositories = append(r.target.Repositories, repository)
		case as[*usageError](err):
			return err
		default:
			r.target.Lost = append(r.target.Lost, err)
		}
	}
	if len(r.target.Repositories) > 0 {
		return nil // what is lost becomes a warning
	}
	return errors.Join(r.target.Lost...)
}

func (r *backupRun) openOne(ctx context.Context, place string) (*catalog.Repository, error) {
	sink, err := openSink(place, r.Create)
	if err != nil {
		return nil, err
	}
	if !r.Create {
		return catalog.Open(ctx, sink, place)
	}
	repository, created, err := catalog.Init(ctx, sink, place)
	if created {
		r.env.notef("created a new repository in %s", place)
	}
	return repository, err
}

// startTool starts mariadb-backup.
func (r *backupRun) startTool(ctx context.Context, log io.Writer) (backup.Source, error) {
	connect, err := r.connect()
	if err != nil {
		return nil, err
	}
	if r.reached != nil {
		connect = *r.reached
	}
	return mariadb.StartBackup(ctx, mariadb.BackupOptions{
		ConnectOptions: connect, Tool: r.Tool, Args: r.rest, Nice: r.Nice, Grace: r.KillAfter,
		Log: log, OnEvent: r.event,
	})
}

// startStdin takes the stream from standard input.
func (r *backupRun) startStdin(context.Context, io.Writer) (backup.Source, error) {
	f, err := openFile(r.env, "-")
	if err != nil {
		return nil, err
	}
	return backup.NewStdin(f)
}

// phases are what the tool's phases are called on a terminal.
var phases = map[string]string{
	mariadb.PhaseConnect: "connecting", mariadb.PhaseCopy: "copying", mariadb.PhaseFlush: "flushing tables",
	mariadb.PhaseBlockDDL: "DDL blocked", mariadb.PhaseBlockCommit: "commits blocked", mariadb.PhaseEnd: "unlocking",
	mariadb.PhaseFinish: "finishing",
}

// event tells what the tool says.
func (r *backupRun) event(e mariadb.Event) {
	switch e.Kind {
	case mariadb.EventPhase:
		r.phase(phases[e.Phase])
		r.env.detailf("%s", phases[e.Phase])
	case mariadb.EventWarning, mariadb.EventError:
		r.env.detailf("mariadb-backup: %s", e.Text)
	}
}

func (r *backupRun) phase(name string) { r.reporter.SetPhase(name) }

// do runs the backup to wherever it goes.
func (r *backupRun) do(ctx context.Context, o backup.Options) (*backup.Result, error) {
	switch {
	case r.To == "":
		return backup.Run(ctx, r.target, o)
	case r.To == "-":
		if r.env.StdoutTTY {
			return nil, usagef("standard output is a terminal, and the stream is binary: redirect or pipe it")
		}
		return backup.RunPlain(ctx, r.env.binaryStdout(), o)
	}
	return r.toFile(ctx, o)
}

// toFile writes to the file of --to. A device or a pipe is written to directly; a file appears when it is whole.
func (r *backupRun) toFile(ctx context.Context, o backup.Options) (result *backup.Result, err error) {
	info, err := os.Stat(r.To)
	if err == nil && info.IsDir() {
		return nil, usagef("--to %s is a directory: give the name of a file in it, or use --repo", r.To)
	}
	if err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(r.To, os.O_WRONLY, 0)
		if err != nil {
			return nil, &backup.SinkError{Err: err}
		}
		result, err := backup.RunPlain(ctx, f, o)
		if cerr := f.Close(); cerr != nil {
			err = errors.Join(err, &backup.SinkError{Err: cerr})
		}
		return result, err
	}
	dir := filepath.Dir(r.To)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, &backup.SinkError{Err: fmt.Errorf("there is no directory %q", dir)}
	}
	sink, err := sinks.NewLocal(dir)
	if err != nil {
		return nil, &backup.SinkError{Err: err}
	}
	return backup.RunFile(ctx, sink, filepath.Base(r.To), o)
}

// tell writes the summary, verifies if asked to, and decides between done and done with warnings.
func (r *backupRun) tell(ctx context.Context, result *backup.Result) error {
	m := result.Manifest
	r.summary(result)
	var all error
	if r.Verify != "none" {
		all = r.verify(ctx, result)
	}
	for _, warning := range slices.Concat(m.Warnings, result.Details) {
		r.env.warnf("%s", printable(warning))
	}
	for _, err := range result.Failed {
		known := func(w string) bool { return strings.Contains(w, err.Error()) }
		if !slices.ContainsFunc(m.Warnings, known) {
			r.env.warnf("%v", err)
		}
	}
	if all == nil && len(m.Warnings)+len(result.Failed) > 0 {
		all = reported(errWarnings)
	}
	if r.JSON && r.To != "-" && (all == nil || as[*reportedError](all)) { // else the error is what is printed
		return errors.Join(all, writeJSON(r.env.Stdout, m))
	}
	return all
}

// verify reads the backup back from every repository that got it.
func (r *backupRun) verify(ctx context.Context, result *backup.Result) error {
	m := result.Manifest
	o := &verifyOptions{
		common: r.common, serverFlags: r.serverFlags, Level: r.Verify, Jobs: r.Jobs, Scratch: r.Scratch,
		Check: string(scratch.Medium), key: result.Key,
	}
	for _, repository := range r.target.Repositories {
		b, err := repository.Find(ctx, m.Server, m.ID)
		if errors.Is(err, catalog.ErrNoBackup) {
			continue // it failed, and is told as such
		}
		if err != nil {
			return err
		}
		var report *verify.Report
		if report, err = verifyOne(ctx, o, r.env, b); err != nil {
			return err
		}
		if !report.OK {
			return fmt.Errorf("%s in %s: %w", b.ID, repository.Location(), errDamage)
		}
	}
	return nil
}

// summary tells people what was done and what set the pace.
func (r *backupRun) summary(result *backup.Result) {
	m := result.Manifest
	name := m.ID
	if r.To != "" {
		name = r.To
	}
	r.env.notef("%s: %s -> %s (%s, %s) in %s", name, progress.Size(m.RawBytes), progress.Size(m.StoredBytes),
		progress.Ratio(m.RawBytes, m.StoredBytes), codecText(m), progress.Duration(result.Elapsed))
	r.env.notef("speed %s in, %s out; the bottleneck was the %s", progress.Rate(m.RawBytes, result.Elapsed),
		progress.Rate(m.StoredBytes, result.Elapsed), bottlenecks[m.Timings.Bottleneck])
	seconds := func(s float64) string { return progress.Duration(time.Duration(s * float64(time.Second))) }
	r.env.notef("time: source %s, check %s, compress %s (all workers), write %s", seconds(m.Timings.Source),
		seconds(m.Timings.Check), seconds(m.Timings.Compress), seconds(m.Timings.Sink))
	if len(result.Phases) > 0 {
		r.env.notef("the server's DDL or commits were blocked for %s", seconds(m.Timings.Locked))
	}
}

// bottlenecks names the stages for people.
var bottlenecks = map[string]string{
	"source": "source (mariadb-backup)", "cpu": "CPU (compression)", "sink": "sink (where the backup is written)",
}
