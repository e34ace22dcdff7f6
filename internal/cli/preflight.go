package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/internal/progress"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/server"
)

// errNoSpace is wrapped when a backup would not fit; it counts as a failure of the sink.
var errNoSpace = errors.New("not enough free space")

// look looks at the server before the run, and refuses one whose backup can't succeed. It returns the raw bytes to
// expect, 0 if unknown.
func (r *backupRun) look(ctx context.Context) (int64, error) {
	if r.SkipCheck || r.Stdin {
		return 0, nil
	}
	connect, err := r.connect()
	if err != nil {
		return 0, err
	}
	findings, err := server.Check(ctx, server.CheckOptions{ConnectOptions: connect, Tool: r.Tool, Args: r.rest})
	if err != nil {
		return 0, err
	}
	for _, f := range findings {
		switch f.Level {
		case server.LevelFail:
			return 0, unfit(f)
		case server.LevelWarn:
			r.env.detailf("check: %s: %s", f.What, f.Detail)
		}
	}
	return r.meet(ctx, connect), nil
}

// unfit turns a finding into the error of the run.
func unfit(f server.Finding) error {
	err := fmt.Errorf("check before the backup: %s: %s", f.What, f.Detail)
	hint := f.Hint
	if hint == "" {
		hint = "what else is missing? try: mbwrap check"
	}
	if f.What == "tool" || f.What == "tool options" {
		return &usageError{err: err, hint: hint}
	}
	return withHint(&kindError{err, errSource}, hint)
}

// kindError gives an error a kind that its message does not repeat.
type kindError struct{ err, kind error }

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.err, e.kind} }

// meet keeps how the server was reached: the tool does not read all option files that lead there. It returns the size of
// the data directory for the progress, 0 if nobody looks or it can't be known.
func (r *backupRun) meet(ctx context.Context, connect mariadb.ConnectOptions) int64 {
	conn, err := server.Connect(ctx, connect)
	if err != nil {
		return 0 // the tool will say why
	}
	defer conn.Close() // only read from
	found := conn.Options()
	r.reached = &found
	if mode := r.env.console().mode; mode == progress.None || mode == progress.Auto && !r.env.StderrTTY {
		return 0
	}
	facts, err := conn.Facts(ctx)
	if err != nil {
		return 0
	}
	return facts.Data.Bytes
}

// lookBack compares the last backup's stored size with the free space of each repository. One that can't hold the next
// backup is lost to this run, which goes on as long as another one is left. It returns the last raw size.
func (r *backupRun) lookBack(ctx context.Context) (raw int64, err error) {
	var fit []*catalog.Repository
	for _, repository := range r.target.Repositories {
		size, err := r.lookAt(ctx, repository)
		if err != nil {
			r.target.Lost = append(r.target.Lost, err)
			continue
		}
		raw = max(raw, size)
		fit = append(fit, repository)
	}
	r.target.Repositories = fit
	if len(fit) == 0 {
		return 0, errors.Join(r.target.Lost...)
	}
	return raw, nil
}

// lookAt returns the raw size of the last backup in a repository, 0 if there is none, and refuses one whose disk has no
// room for another.
func (r *backupRun) lookAt(ctx context.Context, repository *catalog.Repository) (int64, error) {
	last, err := repository.Find(ctx, r.target.Server, catalog.Latest)
	if errors.Is(err, catalog.ErrNoBackup) {
		return 0, nil
	}
	if err != nil {
		return 0, &catalog.RepositoryError{Location: repository.Location(), Err: err}
	}
	measurer, ok := repository.Sink().(interface {
		Free(context.Context) (int64, error)
	})
	if !ok || r.SkipCheck {
		return last.Manifest.RawBytes, nil
	}
	free, err := measurer.Free(ctx)
	if err != nil {
		return 0, &catalog.RepositoryError{Location: repository.Location(), Err: err}
	}
	if need := int64(reserve * float64(last.Manifest.StoredBytes)); free < need {
		return 0, withHint(fmt.Errorf("repository %s: %w: %s free, the backup is expected to take %s",
			repository.Location(), errNoSpace, progress.Size(free), progress.Size(need)),
			"can old backups be removed? try: mbwrap list; or take it anyway: --skip-check")
	}
	return last.Manifest.RawBytes, nil
}
