package restore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/version"
)

// Run restores a backup or a stream into a directory: it makes the files, prepares them and hands them over. What can be
// refused is refused before anything is touched. Every later error is an *IncompleteError, and leaves an unfinished
// restore in the target, never a part of one where a server would take it for a data directory.
//
// When the target holds an unfinished restore of the same backup, Run goes on with it. Errors about what is stored match
// those of packages pipeline, xbstream and catalog; those of mariadb-backup are *mariadb.ToolError.
func Run(ctx context.Context, o Options) (Result, error) {
	if (o.Backup == nil) == (o.Stream == nil) {
		return Result{}, errors.New("restore: either a backup or a stream must be given")
	}
	r := &runner{Options: o, stream: o.Stream}
	return r.run(ctx)
}

// Extract makes the files of a stream, and no more than that: nothing is prepared. It keeps the rules of Run.
func Extract(ctx context.Context, s *Stream, o ExtractOptions) (Result, error) {
	r := &runner{stream: s, extractOnly: true, Options: Options{
		Target: o.Target, Stream: s, NoPrepare: true, Owner: o.Owner, Version: o.Version, Meter: o.Meter, OnPhase: o.OnPhase,
	}}
	return r.run(ctx)
}

// runner is one restore.
type runner struct {
	Options
	extractOnly bool

	target *target
	owner  owner
	source source
	plan   *plan   // nil: everything, as it comes
	stream *Stream // what is read when there is no plan; nil: the volumes of the backup
	tool   string  // absolute path; "" when nothing is prepared
	work   *work
	survey survey
	losses losses // what can't be salvaged
	// positionErr says why the result has no position.
	positionErr error

	result Result
}

func (r *runner) run(ctx context.Context) (Result, error) {
	if err := r.ready(ctx); err != nil {
		return r.result, explainFull(r.Target, err)
	}
	err := r.finishPhases(ctx)
	if err == nil {
		r.reportLosses()
		r.result.Next = r.nextSteps()
		return r.result, r.work.close()
	}
	err = &IncompleteError{
		Dir: r.target.unfinishedDir(), Phase: r.work.state.Phase, Again: r.again(), Err: explainFull(r.target.path, err),
	}
	return r.result, errors.Join(err, r.work.close())
}

// again tells whether another run can keep what this one has made.
func (r *runner) again() bool {
	switch r.work.state.Phase {
	case PhaseExtract:
		return r.plan != nil
	case PhasePrepare:
		return r.source.certain() && r.work.state.Prepares < 2
	}
	return r.source.certain()
}

// ready checks everything that can be checked before the target is touched, and then takes hold of the target.
func (r *runner) ready(ctx context.Context) (err error) {
	if r.target, err = inspect(r.Target); err != nil {
		return err
	}
	r.result.Target = r.target.path
	if r.Owner != "" {
		if r.owner, err = parseOwner(r.Owner); err != nil {
			return err
		}
	}
	if r.Backup != nil {
		err = r.planBackup(ctx)
	} else {
		r.source = source{Stream: r.stream.Name, Identity: r.stream.Identity}
	}
	if err != nil {
		return err
	}
	if !r.NoPrepare {
		if err := r.findTool(ctx); err != nil {
			return err
		}
	}
	return r.begin()
}

// planBackup finds out what is to be read of the backup.
func (r *runner) planBackup(ctx context.Context) error {
	m := r.Backup.Manifest
	if m == nil {
		return r.noManifest()
	}
	if m.Type != catalog.Full && !r.NoPrepare {
		return fmt.Errorf("backup %s: %w", r.Backup.ID, ErrIncremental)
	}
	if err := r.checkVolumes(ctx); err != nil {
		return err
	}
	manifest, err := r.Backup.ReadManifest(ctx)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(manifest)
	r.source = source{Server: r.Backup.Server, Backup: r.Backup.ID, Manifest: hex.EncodeToString(sum[:])}
	index, err := r.Backup.Index(ctx)
	if errors.Is(err, catalog.ErrIndex) || errors.Is(err, fs.ErrNotExist) {
		if r.Select != nil {
			return fmt.Errorf("choose files: %w", err)
		}
		r.warn("the backup's index can't be used, so that all of it is read in order: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	if r.plan, err = newPlan(index, r.Select); err != nil {
		return fmt.Errorf("backup %s: %w", r.Backup.ID, err)
	}
	if r.Select != nil {
		r.source.Files = r.plan.digest()
	}
	return nil
}

// noManifest explains what can't be done without a manifest.
func (r *runner) noManifest() error {
	err := fmt.Errorf("backup %s is %s: %w", r.Backup.ID, r.Backup.State, catalog.ErrManifest)
	if r.Backup.Err != nil {
		err = fmt.Errorf("backup %s is %s: %w", r.Backup.ID, r.Backup.State, r.Backup.Err)
	}
	if !r.Salvage {
		return err
	}
	return fmt.Errorf("%w; without it nobody knows which volumes belong to the backup: put them together by hand, data.0001 first, "+
		"decrypt and decompress them, and restore the stream from standard input, which can be salvaged, too", err)
}

// checkVolumes tells whether the backup can be decrypted, is of a codec that is known, and has all of its volumes in full,
// without reading them. What is to be salvaged needs one volume that can be opened.
func (r *runner) checkVolumes(ctx context.Context) error {
	if _, err := codec.Lookup(r.Backup.Manifest.Codec); err != nil {
		return fmt.Errorf("backup %s: %w", r.Backup.ID, err)
	}
	if !r.Salvage {
		return r.Backup.CheckVolumes(ctx)
	}
	return anyVolume(ctx, r.Backup)
}

func (r *runner) warn(format string, args ...any) {
	r.result.Warnings = append(r.result.Warnings, fmt.Sprintf(format, args...))
}

// findTool finds the tool and refuses one that can't prepare the backup, as far as its server is known.
func (r *runner) findTool(ctx context.Context) (err error) {
	if r.tool, err = mariadb.FindTool(r.Tool); err != nil {
		return err
	}
	if r.Backup == nil {
		return nil
	}
	return r.fitTool(ctx, r.Backup.Manifest.ServerVersion)
}

// fitTool compares the tool with the server that the backup was made of; an unknown one fits.
func (r *runner) fitTool(ctx context.Context, server string) error {
	made := version.Parse(server)
	if made == (version.Number{}) {
		return nil
	}
	tool, _, err := version.Of(ctx, r.tool)
	if err != nil {
		return err
	}
	if tool.CompareSeries(made) < 0 {
		return &VersionError{Tool: r.tool, ToolVersion: tool.String(), ServerVersion: made.String()}
	}
	return nil
}

// begin checks the space and takes hold of the target. An unfinished restore is taken hold of first: what it has made
// needs no space any more.
func (r *runner) begin() (err error) {
	if r.target.unfinished {
		if r.work, err = r.target.begin(r.source, r.Version); err != nil {
			return err
		}
		if r.work.state.Salvaged && !r.Salvage {
			err := &UnfinishedError{Dir: r.target.unfinishedDir(), What: r.source.String() + " that leaves out what is damaged"}
			return errors.Join(err, r.work.close())
		}
	}
	if err := r.checkSpace(); err != nil {
		if r.work != nil {
			err = errors.Join(err, r.work.close())
		}
		return err
	}
	if r.work == nil {
		if r.work, err = r.target.begin(r.source, r.Version); err != nil {
			return err
		}
	}
	if err := r.settleOwner(); err != nil {
		if r.work.fresh {
			err = errors.Join(err, r.work.abandon())
		}
		return errors.Join(err, r.work.close())
	}
	return nil
}

// checkSpace compares the sizes of the files with what is free.
func (r *runner) checkSpace() error {
	if r.SkipSpace || r.plan == nil || r.work != nil && r.work.state.Phase != PhaseExtract {
		return nil
	}
	need := r.plan.size()
	if r.tool != "" {
		need += prepareRoom
		for _, f := range r.plan.files {
			if f.Path == redoLog {
				need += f.Size
			}
		}
	}
	if r.work != nil {
		have, err := allocated(r.work.data)
		if err != nil {
			return err
		}
		need -= have
	}
	return checkSpace(r.target.path, need, int64(len(r.plan.files)))
}

// settleOwner decides whom the files will belong to, and whether we can give them away.
func (r *runner) settleOwner() error {
	if r.Owner == "" {
		r.owner = keepOwner()
		if !r.extractOnly {
			before := r.target.info
			if r.work.state.Created {
				before = nil
			}
			r.owner = defaultOwner(before)
		}
	}
	return r.owner.mayGive(r.work.dir, lockName)
}

// finishPhases goes through all phases that are still to be gone through.
func (r *runner) finishPhases(ctx context.Context) error {
	w := r.work
	r.result.Resumed = w.resume
	if w.resume && (w.state.Phase == PhaseExtract || !r.source.certain()) {
		if err := r.restart(); err != nil {
			return err
		}
	}
	if w.state.Phase == PhaseExtract {
		w.state.Prepare = !r.NoPrepare // from here on it is settled
		if err := r.timed(ctx, PhaseExtract, r.extract); err != nil {
			return err
		}
	}
	if w.state.Phase != PhaseHandOver {
		if err := r.look(); err != nil {
			return err
		}
		if err := r.settleLosses(); err != nil {
			return err
		}
		if w.state.Prepare {
			if err := r.timed(ctx, PhasePrepare, r.prepare); err != nil {
				return err
			}
		}
	}
	return r.timed(ctx, PhaseHandOver, r.handOver)
}

// restart throws away what can't be taken over from the unfinished run.
func (r *runner) restart() error {
	if r.plan == nil {
		return r.work.startOver()
	}
	return nil // the plan sorts it out file by file
}

// timed runs one phase.
func (r *runner) timed(ctx context.Context, p Phase, do func(context.Context) error) error {
	if r.OnPhase != nil {
		r.OnPhase(p)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	start := time.Now()
	err := do(ctx)
	switch spent := time.Since(start); p {
	case PhaseExtract:
		r.result.Extract = spent
	case PhasePrepare:
		r.result.Prepare = spent
	case PhaseHandOver:
		r.result.HandOver = spent
	}
	return err
}
