package cli

import (
	"context"
	"fmt"

	"github.com/mbwrap/mbwrap/internal/progress"
)

type filesOptions struct {
	common
	keyFlags
}

func newFiles(env *Env) *command {
	o := &filesOptions{}
	return &command{
		name: "files", summary: "list the files in a backup", args: "BACKUP", least: 1, most: 1,
		about: "Lists the files that a restore makes, with their sizes, out of the backup's index: files that were " +
			"renamed, removed or rewritten while the backup ran are shown as they are at its end. The index of an encrypted " +
			"backup is encrypted too, as names of tables tell much: it needs --identity.",
		examples: []string{"mbwrap files latest --repo /backups", "mbwrap files latest --repo /backups --json"},
		exits:    []int{exitStream, exitKey, exitNoBackup},
		settings: o.keyFlags.settings(),
		common:   &o.common, places: true, pager: true,
		run: func(ctx context.Context, in input) error { return runFiles(ctx, o, env, in.arg(0)) },
	}
}

type fileJSON struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

func runFiles(ctx context.Context, o *filesOptions, env *Env, ref string) error {
	b, err := findOpen(ctx, env, &o.common, openOptions{ref, &o.keyFlags})
	if err != nil {
		return err
	}
	index, err := b.Index(ctx)
	if err != nil {
		return err
	}
	files := index.Tree()
	if o.JSON {
		all := make([]fileJSON, len(files))
		for i, f := range files {
			all[i] = fileJSON{f.Path, f.Size}
		}
		return writeJSON(env.Stdout, all)
	}
	var total int64
	for _, f := range files {
		total += f.Size
		if _, err := fmt.Fprintf(env.Stdout, "%14d  %s\n", f.Size, printable(f.Path)); err != nil {
			return err
		}
	}
	env.notef("%d files, %s", len(files), progress.Size(total))
	return nil
}
