package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/internal/progress"
)

type gcOptions struct {
	common
	DryRun    bool
	OlderThan time.Duration
}

func newGC(env *Env) *command {
	o := &gcOptions{OlderThan: 24 * time.Hour}
	return &command{
		name: "gc", summary: "remove what dead runs left in a repository",
		about: "Finds and removes what backups left that were killed before they were complete: objects without a manifest, " +
			"and unfinished ones. Committed backups are never touched, nor what belongs to a run that is alive. It looks at " +
			"all servers unless --server names one.",
		examples: []string{"mbwrap gc --repo /backups --dry-run", "mbwrap gc --repo /backups --older-than 0"},
		exits:    []int{exitSink},
		settings: []*setting{
			toggle(&o.DryRun, "dry-run", "only tell what would be removed"),
			span(&o.OlderThan, "older-than", "TIME", "leave alone what is younger"),
		},
		common: &o.common, places: true,
		run: func(ctx context.Context, _ input) error { return runGC(ctx, o, env) },
	}
}

// leftoverJSON is one leftover as --json shows it.
type leftoverJSON struct {
	Repository string `json:"repository"`
	Name       string `json:"name"`
	Size       int64  `json:"size"`
	Modified   moment `json:"modified"`
	Removed    bool   `json:"removed"`
}

func runGC(ctx context.Context, o *gcOptions, env *Env) error {
	repositories, err := openRepositories(ctx, &o.common)
	if err != nil {
		return err
	}
	host, _ := env.Hostname() // it is there for people only
	owner, err := json.Marshal(map[string]any{"host": host, "pid": os.Getpid(), "command": "gc"})
	if err != nil {
		return err
	}
	all := []leftoverJSON{}
	var total int64
	for _, r := range repositories {
		left, busy, err := r.Leftovers(ctx, catalog.LeftoverOptions{
			Server: o.Server, Age: o.OlderThan, Now: env.Now(), Remove: !o.DryRun, Owner: owner,
		})
		if err != nil {
			return &catalog.RepositoryError{Location: r.Location(), Err: err}
		}
		for _, server := range busy {
			env.notef("%s: a run of %s is alive; its leftovers are left alone", r.Location(), server)
		}
		for _, l := range left {
			total += l.Size
			all = append(all, leftoverJSON{r.Location(), l.Name, l.Size, moment(l.ModTime), !o.DryRun})
		}
	}
	if o.JSON {
		return writeJSON(env.Stdout, all)
	}
	if o.DryRun {
		for _, l := range all {
			fmt.Fprintf(env.Stdout, "%14d  %s\n", l.Size, printable(l.Name))
		}
	}
	verb := "removed"
	if o.DryRun {
		verb = "would remove"
	}
	env.notef("%s %d objects, %s", verb, len(all), progress.Size(total))
	return nil
}
