package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/internal/progress"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/restore"
)

type restoreOptions struct {
	common
	keyFlags
	Target    string
	Salvage   bool
	Prepare   bool
	UseMemory int64
	Owner     string
	Jobs      int
	Tool      string
	SkipSpace bool
}

func newRestore(env *Env) *command {
	o := &restoreOptions{Prepare: true}
	return &command{
		name: "restore", summary: "make a data directory out of a backup", args: "[BACKUP]", most: 1,
		about: "Restores a backup into a directory that a server starts on: decodes and extracts on all cores, prepares " +
			"with mariadb-backup and hands the files to their owner. BACKUP is an ID, the beginning of one, latest (the " +
			"default), or the path of a plain stream, compressed or not (- for standard input).\n\n" +
			"The target must be absent, or empty but for lost+found. All work is done in mbwrap-restore.unfinished inside " +
			"of it until everything is complete, so that no server can be started on half a restore. Interrupted? Run the " +
			"same command again: what is complete and checked is kept.\n\n" +
			"--salvage is for a backup that is damaged and the only one: it restores everything that is intact and lists " +
			"what is lost.",
		examples: []string{
			"mbwrap restore --repo /backups --target-dir /var/lib/mysql",
			"mbwrap restore --repo /backups 20261130T1801 --target-dir /srv/restore --use-memory 8GiB",
			"mbwrap restore /backups/full.xbs.zst --target-dir /srv/restore",
		},
		exits: []int{exitWarnings, exitSource, exitStream, exitSink, exitKey, exitNoBackup, exitLocked},
		settings: append([]*setting{
			text(&o.Target, "target-dir", "DIR", "the data directory to make"),
			toggle(&o.Prepare, "prepare", "prepare the files with mariadb-backup"),
			bytesize(&o.UseMemory, "use-memory", "SIZE", "memory for the prepare (default: from what is free)"),
			text(&o.Owner, "owner", "USER:GROUP", "who gets the files (default: the target's owner, else mysql)"),
			number(&o.Jobs, "jobs", "N", "decoding workers (default: one a core)"),
			text(&o.Tool, "tool", "PATH", "the mariadb-backup to prepare with"),
			toggle(&o.SkipSpace, "skip-space-check", "do not compare the backup's size with the free space first"),
			toggle(&o.Salvage, "salvage", "restore what is intact of a damaged backup"),
		}, o.keyFlags.settings()...),
		common: &o.common, places: true,
		run: func(ctx context.Context, in input) error { return runRestore(ctx, o, env, in.arg(0)) },
	}
}

func runRestore(ctx context.Context, o *restoreOptions, env *Env, ref string) error {
	if o.Target == "" {
		return usagef("restore needs --target-dir: where is the data directory to be made?")
	}
	if ref == "" {
		ref = catalog.Latest
	}
	meter := new(pipeline.Meter)
	options := restore.Options{
		Target: o.Target, NoPrepare: !o.Prepare, Tool: o.Tool, UseMemory: o.UseMemory, Owner: o.Owner, Jobs: o.Jobs,
		SkipSpace: o.SkipSpace, Salvage: o.Salvage, Version: programVersion(), Meter: meter,
		OnTool: func(e mariadb.Event) {
			if e.Text != "" {
				env.detailf("mariadb-backup: %s", e.Text)
			}
		},
	}
	title, err := o.source(ctx, env, ref, &options)
	if err != nil {
		return err
	}
	if options.Stream != nil {
		defer options.Stream.Interrupt()
	}
	reporter, end := env.watch(title, 0, meter)
	defer end()
	options.OnTotal = reporter.SetTotal
	options.OnPhase = func(p restore.Phase) { reporter.SetPhase(string(p)) }
	result, err := restore.Run(ctx, options)
	end()
	if err != nil {
		return adviseSalvage(o, err)
	}
	return tellRestored(env, &o.common, &result)
}

// adviseSalvage tells of --salvage when it is damage that stopped a restore.
func adviseSalvage(o *restoreOptions, err error) error {
	if code, _ := judge(err); code != exitStream || o.Salvage {
		return err
	}
	return withHint(err, "how much of it is damaged? try: mbwrap verify; and to save what is intact: mbwrap restore --salvage")
}

// source finds what to restore.
func (o *restoreOptions) source(ctx context.Context, env *Env, ref string, options *restore.Options) (string, error) {
	if isFile(ref) {
		stream, err := openStream(ctx, env, ref, &o.keyFlags)
		options.Stream = stream
		return "restore", err
	}
	b, err := findUsable(ctx, env, &o.common, ref)
	if err != nil {
		return "", err
	}
	if b.State == catalog.Bad {
		env.warnf("%s is bad: its last verification found damage", b.ID)
	}
	err = o.unlock(ctx, env, b)
	if o.Salvage && errors.Is(err, catalog.ErrAltered) {
		env.warnf("%v", err)
		err = nil
	}
	options.Backup = b
	return "restore " + b.ID, err
}

// openStream opens a plain stream: a file, or "-" for standard input. If it is encrypted with age it is decrypted with what
// keys give.
func openStream(ctx context.Context, env *Env, ref string, keys *keyFlags) (*restore.Stream, error) {
	f, err := openFile(env, ref)
	if err != nil {
		return nil, err
	}
	stop := func() {
		f.SetReadDeadline(time.Unix(1, 0)) // a file that knows no deadlines does not block either
		if ref != "-" {
			f.Close() // opened for reading only
		}
	}
	s := &restore.Stream{Reader: &unsealer{ctx: ctx, env: env, keys: keys, name: ref, src: f}, Name: ref, Interrupt: stop}
	if ref == "-" {
		s.Name = "standard input"
		return s, nil
	}
	if s.Identity, err = identity(f, ref); err != nil {
		stop()
		return nil, err
	}
	return s, nil
}

// identity tells the same file in a later run.
func identity(f *os.File, ref string) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return "", usagef("%s is a directory: for a repository give --repo", ref)
	}
	path, err := filepath.Abs(ref)
	return fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano()), err
}

// restoredJSON is what --json prints.
type restoredJSON struct {
	Target    string             `json:"target"`
	Files     int64              `json:"files"`
	Bytes     int64              `json:"bytes"`
	Kept      int64              `json:"kept_files"`
	Prepared  bool               `json:"prepared"`
	Lost      []restore.LostFile `json:"lost"` // the first ones
	LostFiles int64              `json:"lost_files"`
	LostList  string             `json:"lost_list"` // the file that lists all of them
	Aside     string             `json:"aside"`     // where the files are when no data directory could be made of them
	Owner     string             `json:"owner"`
	Extract   float64            `json:"extract_seconds"`
	Prepare   float64            `json:"prepare_seconds"`
	HandOver  float64            `json:"hand_over_seconds"`
	Warnings  []string           `json:"warnings"`
	Next      []string           `json:"next"`
}

// tellRestored writes the summary and what to do next. On a terminal, with -v, or as JSON: cron gets the warnings only.
func tellRestored(env *Env, c *common, r *restore.Result) error {
	for _, w := range r.Warnings {
		env.warnf("%s", printable(w))
	}
	if c.JSON {
		j := restoredJSON{
			r.Target, r.Files, r.Bytes, r.Kept, r.Prepared, append([]restore.LostFile{}, r.Lost...), r.LostFiles, r.LostList, r.Aside, r.Owner, r.Extract.Seconds(), r.Prepare.Seconds(),
			r.HandOver.Seconds(), append([]string{}, r.Warnings...), append([]string{}, r.Next...),
		}
		if err := writeJSON(env.Stdout, j); err != nil {
			return err
		}
	} else {
		tellLost(env, r)
		tellNext(env, r)
	}
	if r.Aside != "" {
		return withHint(errorf("no data directory could be made: %w", errLost), "what is in "+r.Aside+"? read its README.txt")
	}
	if len(r.Warnings) > 0 {
		return reported(errWarnings)
	}
	return nil
}

// maxLost is how many lost files are told; the list in the target has all of them.
const maxLost = 20

// tellLost lists what could not be saved, on standard output even in cron: it is what --salvage was asked for.
func tellLost(env *Env, r *restore.Result) {
	if r.LostFiles == 0 {
		return
	}
	fmt.Fprintf(env.Stdout, "%d files are lost; %s lists all of them:\n", r.LostFiles, r.LostList)
	for _, l := range r.Lost[:min(len(r.Lost), maxLost)] {
		fmt.Fprintf(env.Stdout, "  %s: %s\n", printable(l.Path), printable(l.Reason))
	}
	if more := r.LostFiles - int64(min(len(r.Lost), maxLost)); more > 0 {
		fmt.Fprintf(env.Stdout, "  and %d more\n", more)
	}
}

func tellNext(env *Env, r *restore.Result) {
	env.notef("%s: %d files, %s", r.Target, r.Files, progress.Size(r.Bytes))
	if r.Kept > 0 {
		env.notef("%d files were kept from the interrupted run", r.Kept)
	}
	times := []string{fmt.Sprintf("extracted in %s (%s)", progress.Duration(r.Extract), progress.Rate(r.Bytes, r.Extract))}
	if r.Prepared {
		times = append(times, "prepared in "+progress.Duration(r.Prepare))
	}
	times = append(times, "handed over in "+progress.Duration(r.HandOver))
	env.notef("%s", strings.Join(times, ", "))
	for i, step := range r.Next {
		if i == 0 {
			env.notef("next:")
		}
		env.notef("  %d. %s", i+1, printable(step))
	}
}
