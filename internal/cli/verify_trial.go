package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
	"github.com/mbwrap/mbwrap/mariadb/server"
	"github.com/mbwrap/mbwrap/verify"
)

// load reads the files that the flags name.
func (o *verifyOptions) load() error {
	if o.SQL != "" {
		f, err := os.Open(o.SQL)
		if err != nil {
			return &usageError{err: errorf("--sql: %w", err), hint: "does the file exist, and may you read it?"}
		}
		defer f.Close() // opened for reading only
		if o.statements, err = scratch.ParseSQL(f); err != nil {
			return usagef("--sql %s: %w", o.SQL, err)
		}
	}
	if o.Baseline == "" {
		return nil
	}
	f, err := os.Open(o.Baseline)
	if err != nil {
		return &usageError{err: errorf("--baseline: %w", err), hint: "make one on the server: mbwrap verify --save-baseline FILE"}
	}
	defer f.Close() // opened for reading only
	if o.baseline, err = verify.ReadBaseline(f); err != nil {
		return &usageError{err: errorf("--baseline %s: %w", o.Baseline, err), hint: "was it made by: mbwrap verify --save-baseline FILE?"}
	}
	return nil
}

// open unlocks a backup for a verification at a level, and returns the level that is possible. What is altered or missing
// is for the verification to find and no obstacle, but without a key there is nothing to look at behind the sums.
func (o *verifyOptions) open(ctx context.Context, env *Env, v verification) (verify.Level, error) {
	b := v.backup
	if b.Manifest == nil || v.level == verify.Hash {
		return v.level, nil
	}
	var err error
	if o.key != nil {
		err = b.UnlockWith(ctx, o.key)
	} else {
		err = o.unlock(ctx, env, b)
	}
	if !errors.Is(err, catalog.ErrAltered) && !errors.Is(err, catalog.ErrMissing) {
		return v.level, err
	}
	if b.Locked() {
		env.warnf("%v; nothing behind its sums can be read", err)
		return verify.Hash, nil
	}
	return v.level, nil
}

// verification is a backup and how deep to look.
type verification struct {
	backup *catalog.Backup
	level  verify.Level
}

// trial says how level restore goes about it.
func (o *verifyOptions) trial(env *Env) verify.TrialOptions {
	dir := o.Scratch
	if dir == "" {
		if dir = env.Getenv("TMPDIR"); dir == "" {
			dir = "/var/tmp"
		}
	}
	return verify.TrialOptions{
		Dir: dir, Keep: o.Keep, Check: scratch.Mode(o.Check), Statements: o.statements, Baseline: o.baseline, Drift: o.Drift,
		Tool: o.Tool, UseMemory: o.UseMemory, Version: programVersion(),
		OnTool: func(e mariadb.Event) {
			if e.Text != "" {
				env.detailf("mariadb-backup: %s", e.Text)
			}
		},
	}
}

// countParallel is how many tables of a server in use are counted at a time.
const countParallel = 2

// saveBaseline counts the rows of the running server.
func saveBaseline(ctx context.Context, o *verifyOptions, env *Env) error {
	connect, err := o.connect()
	if err != nil {
		return err
	}
	conn, err := server.Connect(ctx, connect)
	if err != nil {
		return errorf("%w: %w", errSource, err)
	}
	defer conn.Close() // it was read from only
	name, err := o.serverName(env)
	if err != nil {
		return err
	}
	began := env.Now()
	rows, err := conn.CountRows(ctx, server.CountOptions{Parallel: countParallel, OnTable: func(r server.Rows) {
		env.detailf("%s", r)
	}})
	if err != nil {
		return errorf("%w: %w", errSource, err)
	}
	baseline := &verify.Baseline{Time: began.UTC().Truncate(time.Second), Server: name}
	baseline.Set(rows)
	var data bytes.Buffer
	if err := baseline.Write(&data); err != nil {
		return err
	}
	if err := replaceFile(o.SaveBaseline, data.String(), 0o600); err != nil {
		return errorf("write the baseline: %w", err)
	}
	env.notef("%d tables counted into %s in %s", len(baseline.Tables), o.SaveBaseline, time.Since(began).Round(time.Millisecond))
	if left := len(rows) - len(baseline.Tables); left > 0 {
		env.warnf("%d tables could not be counted and are left out", left)
		return reported(errWarnings)
	}
	return nil
}

// tellReport writes the report for people. Damage goes to standard output even in cron: it is what was asked for.
func tellReport(env *Env, r *verify.Report) error {
	if !r.OK {
		return r.Text(env.Stdout)
	}
	var text strings.Builder
	if err := r.Text(&text); err != nil {
		return err
	}
	env.notef("%s", text.String())
	return nil
}

// record stores the result beside the backup. A backup without a readable manifest is bad anyway.
func record(ctx context.Context, env *Env, b *catalog.Backup, r *verify.Report) error {
	if b.Manifest == nil {
		return nil
	}
	v := r.Verification()
	v.Time, v.Mbwrap = env.Now().UTC().Truncate(time.Second), programVersion()
	v.Host, _ = env.Hostname() // it is there for people only
	return b.Record(ctx, v)
}
