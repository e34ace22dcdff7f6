package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/verify"
)

type verifyOptions struct {
	common
	keyFlags
	serverFlags
	Level  string
	Jobs   int
	All    bool
	Since  time.Duration
	Sample float64

	Scratch      string
	Keep         bool
	UseMemory    int64
	Check        string
	SQL          string
	Baseline     string
	SaveBaseline string
	Drift        float64

	key        *encrypt.Key // of the backup that this process has just made
	statements []scratch.Statement
	baseline   *verify.Baseline
}

func newVerify(env *Env) *command {
	o := &verifyOptions{Level: string(verify.Read), Check: string(scratch.Medium)}
	return &command{
		name: "verify", summary: "find out what a backup is worth", args: "[BACKUP…]", most: -1,
		about: "hash compares the stored bytes with their SHA-256: no key is needed and nothing is decoded. read also " +
			"decodes every block, checks every checksum in the stream, that every file is whole and that the stream is " +
			"complete, and compares the index with it. pages also checks the checksum of every page of InnoDB's files. " +
			"restore also restores the backup into a scratch directory, prepares it, starts a server on it that can reach " +
			"nothing and nobody, has it check every table, and removes it all; it says how long a real restore would take.\n\n" +
			"Without BACKUP it verifies the latest. The result is recorded beside the backup, and list shows it: a backup " +
			"that failed is bad, and latest passes it over. For damage the report says where it is, which tables it hits, " +
			"and what can still be restored.\n\n" +
			"--sample reads some blocks, chosen at random, and says what it did not read. --save-baseline counts the rows of " +
			"every table of the running server; --baseline compares a restored backup with that. --sql runs your own " +
			"statements: a line \"-- expect: VALUE\" after one says what it must return.",
		examples: []string{
			"mbwrap verify --repo /backups",
			"mbwrap verify --repo /backups --level hash --all # every backup, as fast as the disk, without a key",
			"mbwrap verify --repo /backups --level restore --identity backup.key --scratch-dir /srv/scratch",
			"mbwrap verify --repo /backups --all --since 7d --sample 10%",
			"mbwrap verify --save-baseline rows.json --socket /run/mysqld/mysqld.sock",
		},
		exits:    []int{exitSource, exitStream, exitSink, exitKey, exitDamage, exitNoBackup},
		settings: slices.Concat(o.own(), o.keyFlags.settings(), o.serverFlags.settings()),
		common:   &o.common, places: true,
		run: func(ctx context.Context, in input) error { return runVerify(ctx, o, env, in.args) },
	}
}

// own returns the flags that are the command's own.
func (o *verifyOptions) own() []*setting {
	return []*setting{
		text(&o.Level, "level", "LEVEL", "hash, read, pages or restore; each includes the ones before").among(levelNames()...),
		number(&o.Jobs, "jobs", "N", "workers (default: one a core)"),
		toggle(&o.All, "all", "verify every backup, of --server or of all servers"),
		span(&o.Since, "since", "TIME", "with --all: only backups that began within this time, such as 7d"),
		fraction(&o.Sample, "sample", "PART", "read this part of the blocks, such as 10% (default: all)"),
		text(&o.Scratch, "scratch-dir", "DIR", "where level restore puts its files (default: $TMPDIR, or /var/tmp)"),
		toggle(&o.Keep, "keep", "leave the restored files of level restore there"),
		bytesize(&o.UseMemory, "use-memory", "SIZE", "memory for the prepare and the server of level restore (default: from what is free)"),
		text(&o.Check, "check", "MODE", "how the server checks tables: quick, medium or extended").
			among(string(scratch.Quick), string(scratch.Medium), string(scratch.Extended)),
		text(&o.SQL, "sql", "FILE", "statements that must return what FILE says"),
		text(&o.Baseline, "baseline", "FILE", "the rows that every table must have, from --save-baseline"),
		fraction(&o.Drift, "baseline-drift", "PART", "how far a table's rows may be off the baseline, such as 1%"),
		text(&o.SaveBaseline, "save-baseline", "FILE", "count the rows of the running server into FILE, and verify nothing"),
	}
}

func levelNames() []string {
	var names []string
	for _, l := range verify.Levels() {
		names = append(names, string(l))
	}
	return names
}

// check refuses flags that contradict each other.
func (o *verifyOptions) check(refs []string) error {
	deep := o.Level == string(verify.Restore)
	switch {
	case o.All && len(refs) > 0:
		return usagef("--all and %s: which of them?", quoted(refs))
	case o.Since > 0 && !o.All:
		return usagef("--since goes with --all")
	case deep && o.Sample > 0 && o.Sample < 1:
		return usagef("--sample: level restore needs all of a backup")
	case !deep && (o.SQL != "" || o.Baseline != ""):
		return usagef("--sql and --baseline look at a restored server: they go with --level restore")
	}
	return nil
}

func runVerify(ctx context.Context, o *verifyOptions, env *Env, refs []string) error {
	if o.SaveBaseline != "" {
		return saveBaseline(ctx, o, env)
	}
	if err := o.check(refs); err != nil {
		return err
	}
	if err := o.load(); err != nil {
		return err
	}
	backups, err := o.chosen(ctx, env, refs)
	if err != nil {
		return err
	}
	reports := []*verify.Report{}
	damaged := 0
	for _, b := range backups {
		report, err := verifyOne(ctx, o, env, b)
		if err != nil {
			return err
		}
		reports = append(reports, report)
		if !report.OK {
			damaged++
		}
	}
	if o.JSON {
		if err := writeJSON(env.Stdout, reports); err != nil {
			return err
		}
	}
	if damaged == 0 {
		return nil
	}
	err = fmt.Errorf("%d of %d backups: %w", damaged, len(reports), errDamage)
	if o.JSON {
		return reported(err)
	}
	return err
}

// chosen returns the backups to verify.
func (o *verifyOptions) chosen(ctx context.Context, env *Env, refs []string) ([]*catalog.Backup, error) {
	if o.All {
		return o.recent(env, func() ([]*catalog.Backup, error) { return allBackups(ctx, &o.common) })
	}
	if len(refs) == 0 {
		refs = []string{catalog.Latest}
	}
	var all []*catalog.Backup
	for _, ref := range refs {
		b, err := findBackup(ctx, env, &o.common, ref)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// recent leaves out what is older than --since.
func (o *verifyOptions) recent(env *Env, list func() ([]*catalog.Backup, error)) ([]*catalog.Backup, error) {
	all, err := list()
	if o.Since == 0 || err != nil {
		return all, err
	}
	first := env.Now().Add(-o.Since)
	return slices.DeleteFunc(all, func(b *catalog.Backup) bool {
		started, _, ok := catalog.ParseID(b.ID)
		return ok && started.Before(first)
	}), nil
}

// allBackups returns every committed backup of --server, or of all servers.
func allBackups(ctx context.Context, c *common) ([]*catalog.Backup, error) {
	repositories, err := openRepositories(ctx, c)
	if err != nil {
		return nil, err
	}
	var all []*catalog.Backup
	for _, r := range repositories {
		list, err := r.List(ctx, c.Server)
		if err != nil {
			return nil, err
		}
		for _, b := range list {
			if b.State != catalog.Incomplete {
				all = append(all, b)
			}
		}
	}
	return all, nil
}

// verifyOne verifies one backup, tells what was found and records it.
func verifyOne(ctx context.Context, o *verifyOptions, env *Env, b *catalog.Backup) (*verify.Report, error) {
	level, err := verify.ParseLevel(o.Level)
	if err != nil {
		return nil, err
	}
	if level, err = o.open(ctx, env, verification{b, level}); err != nil {
		return nil, err
	}
	meter := new(pipeline.Meter)
	reporter, end := env.watch("verify "+b.ID, 0, meter)
	defer end()
	trial := o.trial(env)
	trial.OnTables = func(done, all int) {
		if done%max(1, all/100) == 0 || done == all {
			reporter.SetPhase(fmt.Sprintf("checked %d of %d tables", done, all))
		}
	}
	report, err := verify.Run(ctx, b, verify.Options{
		Level: level, Jobs: o.Jobs, Meter: meter, Sample: o.Sample, Trial: trial,
		OnPhase: reporter.SetPhase, OnTotal: reporter.SetTotal,
	})
	end()
	if err != nil {
		return nil, err
	}
	if !o.JSON {
		if err := tellReport(env, report); err != nil {
			return nil, err
		}
	}
	if err := record(ctx, env, b, report); err != nil {
		env.warnf("the result could not be recorded beside the backup: %v", err)
	}
	return report, nil
}
