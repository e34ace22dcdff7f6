package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/internal/progress"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/verify"
)

type verifyOptions struct {
	common
	Level string
	Jobs  int
	All   bool
}

func newVerify(env *Env) *command {
	o := &verifyOptions{Level: string(verify.Read)}
	return &command{
		name: "verify", summary: "find out what a backup is worth", args: "[BACKUP…]", most: -1,
		about: "hash compares the stored bytes with their SHA-256: no key is needed and nothing is decoded. read also " +
			"decodes every block, checks every checksum in the stream, that every file is whole and that the stream is " +
			"complete, and compares the index with it. Without BACKUP it verifies the latest. The result is recorded " +
			"beside the backup, and list shows it: a backup that failed is bad, and latest passes it over.",
		examples: []string{
			"mbwrap verify --repo /backups",
			"mbwrap verify --repo /backups --level hash --all # every backup, as fast as the disk",
			"mbwrap verify --repo /backups 20261130T1801 --json",
		},
		exits: []int{exitDamage, exitNoBackup},
		settings: []*setting{
			text(&o.Level, "level", "LEVEL", "hash or read").among(levelNames()...),
			number(&o.Jobs, "jobs", "N", "workers (default: one a core)"),
			toggle(&o.All, "all", "verify every backup, of --server or of all servers"),
		},
		common: &o.common, places: true,
		run: func(ctx context.Context, in input) error { return runVerify(ctx, o, env, in.args) },
	}
}

func levelNames() []string {
	var names []string
	for _, l := range verify.Levels() {
		names = append(names, string(l))
	}
	return names
}

func runVerify(ctx context.Context, o *verifyOptions, env *Env, refs []string) error {
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
		if len(refs) > 0 {
			return nil, usagef("--all and %s: which of them?", quoted(refs))
		}
		return allBackups(ctx, &o.common)
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
	meter := new(pipeline.Meter)
	total := int64(0)
	if b.Manifest != nil && level != verify.Hash {
		total = b.Manifest.RawBytes
	}
	_, end := env.watch("verify "+b.ID, total, meter)
	defer end()
	report, err := verify.Run(ctx, b, verify.Options{Level: level, Jobs: o.Jobs, Meter: meter})
	end()
	if err != nil {
		return nil, err
	}
	if !o.JSON {
		tellReport(env, report)
	}
	if err := record(ctx, env, b, report); err != nil {
		env.warnf("the result could not be recorded beside the backup: %v", err)
	}
	return report, nil
}

// tellReport writes the report for people. Damage goes to standard output even in cron: it is what was asked for.
func tellReport(env *Env, r *verify.Report) {
	if r.OK {
		size := r.RawBytes
		if r.Level == verify.Hash {
			size = r.StoredBytes
		}
		env.notef("%s is good (%s): %s in %s, %s", r.ID, r.Level, progress.Size(size),
			progress.Duration(r.Duration), progress.Rate(size, r.Duration))
		return
	}
	fmt.Fprintf(env.Stdout, "%s is damaged (%s):\n", r.ID, r.Level)
	for _, p := range r.Problems {
		fmt.Fprintf(env.Stdout, "  %s\n", printable(p.String()))
	}
}

// maxRecorded is how many problems are kept beside the backup.
const maxRecorded = 20

// record stores the result beside the backup. A backup without a readable manifest is bad anyway.
func record(ctx context.Context, env *Env, b *catalog.Backup, r *verify.Report) error {
	if b.Manifest == nil {
		return nil
	}
	v := &catalog.Verification{
		Time: env.Now().UTC().Truncate(time.Second), Level: string(r.Level), OK: r.OK,
		Mbwrap: programVersion(), Seconds: r.Seconds,
	}
	v.Host, _ = env.Hostname() // it is there for people only
	for _, p := range r.Problems[:min(len(r.Problems), maxRecorded)] {
		v.Problems = append(v.Problems, p.String())
	}
	return b.Record(ctx, v)
}
