package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/internal/progress"
)

type listOptions struct {
	common
	All bool
}

func newList(env *Env) *command {
	o := &listOptions{}
	return &command{
		name: "list", summary: "show the backups in a repository",
		about: "Shows every backup, oldest first. Without --server it shows those of all servers. The state is complete, " +
			"warning (complete, but read its warnings: mbwrap show) or bad (a verification failed). With --all the " +
			"incomplete ones of running or dead runs are shown too; they can't be restored.",
		examples: []string{
			"mbwrap list --repo /backups",
			"mbwrap list --repo /backups --server db1 --json # for programs: an array, newest last",
		},
		settings: []*setting{toggle(&o.All, "all", "also show what is incomplete")},
		common:   &o.common, places: true,
		run: func(ctx context.Context, _ input) error { return runList(ctx, o, env) },
	}
}

// backupJSON is one backup as list --json shows it. Its fields keep their names and meanings.
type backupJSON struct {
	ID          string        `json:"id"`
	Server      string        `json:"server"`
	Type        string        `json:"type"`
	Parent      *string       `json:"parent"`
	State       catalog.State `json:"state"`
	Started     moment        `json:"started"`
	Finished    moment        `json:"finished"`
	RawBytes    int64         `json:"raw_bytes"`
	StoredBytes int64         `json:"stored_bytes"`
	Codec       string        `json:"codec"`
	Level       string        `json:"level"`
	Encrypted   bool          `json:"encrypted"`
	FromLSN     uint64        `json:"from_lsn"`
	ToLSN       uint64        `json:"to_lsn"`
	Verified    *verifiedJSON `json:"verified"`
	Repository  string        `json:"repository"`
	Problem     string        `json:"problem,omitempty"`
}

// verifiedJSON is the last check; ok is false as long as one that found something has not been made good by another as
// deep.
type verifiedJSON struct {
	Time  moment `json:"time"`
	Level string `json:"level"`
	OK    bool   `json:"ok"`
}

// toJSON describes b.
func toJSON(b *catalog.Backup) backupJSON {
	j := backupJSON{ID: b.ID, Server: b.Server, State: b.State, Repository: b.Repository.Location()}
	if b.Err != nil {
		j.Problem = b.Err.Error()
	}
	if started, typ, ok := catalog.ParseID(b.ID); ok {
		j.Started, j.Type = moment(started), typ
	}
	if v := b.Verified; v != nil {
		j.Verified = &verifiedJSON{moment(v.Time), v.Level, v.Passed()}
	}
	if m := b.Manifest; m != nil {
		j.Type, j.Parent, j.Started, j.Finished = m.Type, m.Parent, moment(m.Started), moment(m.Finished)
		j.RawBytes, j.StoredBytes, j.Codec, j.Level, j.Encrypted = m.RawBytes, m.StoredBytes, m.Codec, m.Level, m.Encrypted
		j.FromLSN, j.ToLSN = m.FromLSN, m.ToLSN
	}
	return j
}

func runList(ctx context.Context, o *listOptions, env *Env) error {
	repositories, err := openRepositories(ctx, &o.common)
	if err != nil {
		return err
	}
	backups := []*catalog.Backup{}
	for _, r := range repositories {
		list, err := r.List(ctx, o.Server)
		if err != nil {
			return err
		}
		for _, b := range list {
			if o.All || b.State != catalog.Incomplete {
				backups = append(backups, b)
			}
		}
	}
	if o.JSON {
		all := make([]backupJSON, len(backups))
		for i, b := range backups {
			all[i] = toJSON(b)
		}
		return writeJSON(env.Stdout, all)
	}
	if len(backups) == 0 {
		env.notef("no backups yet in %s", quoted(o.Repos))
		return nil
	}
	return listTable(backups, len(repositories) > 1).write(env.Stdout)
}

// listTable makes the table that people read.
func listTable(backups []*catalog.Backup, several bool) *table {
	headings := []string{"SERVER", "ID", "STATE", ">TOOK", ">RAW", ">STORED", ">RATIO", "CODEC", "VERIFIED", "REPOSITORY"}
	if !several {
		headings = headings[:len(headings)-1]
	}
	t := newTable(headings...)
	for _, b := range backups {
		row := []string{b.Server, b.ID, string(b.State), "", "", "", "", "", verifiedText(b), b.Repository.Location()}
		if m := b.Manifest; m != nil {
			row[3] = progress.Duration(m.Finished.Sub(m.Started))
			row[4], row[5] = progress.Size(m.RawBytes), progress.Size(m.StoredBytes)
			row[6], row[7] = progress.Ratio(m.RawBytes, m.StoredBytes), codecText(m)
			if m.Encrypted {
				row[7] += ", age"
			}
		}
		t.add(row...)
	}
	return t
}

// codecText names codec and level.
func codecText(m *catalog.Manifest) string {
	if len(m.Levels) == 1 && m.Codec != "none" {
		return fmt.Sprintf("%s %d", m.Codec, m.Levels[0].Level)
	}
	return m.Codec
}

// verifiedText tells when and how b was last verified. What a deeper check found counts for more than that a shallower one
// found nothing later.
func verifiedText(b *catalog.Backup) string {
	v := b.Verified
	switch {
	case v == nil:
		return "-"
	case v.OK && v.Failure != nil:
		v = v.Failure
	case v.OK && v.Deeper != nil:
		v = v.Deeper
	}
	return checkText(v)
}

// checkText tells when and how a verification went.
func checkText(v *catalog.Verification) string {
	text := v.Time.Local().Format(time.DateTime) + " " + v.Level
	if v.Sample > 0 && v.Sample < 1 {
		text += fmt.Sprintf(" (sample %.3g%%)", 100*v.Sample)
	}
	if !v.OK {
		text += " DAMAGED"
	}
	return text
}
