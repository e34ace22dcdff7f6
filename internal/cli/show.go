package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/internal/progress"
)

type showOptions struct{ common }

func newShow(env *Env) *command {
	o := &showOptions{}
	return &command{
		name: "show", summary: "show all that is known about a backup", args: "BACKUP", least: 1, most: 1,
		about: "Shows versions, LSNs, binary log position, sizes, timings, warnings and the last verification. " +
			"It needs no key and reads no data.",
		examples: []string{"mbwrap show latest --repo /backups", "mbwrap show 20261130T1801 --repo /backups --json"},
		exits:    []int{exitNoBackup},
		common:   &o.common, places: true,
		run: func(ctx context.Context, in input) error { return runShow(ctx, o, env, in.arg(0)) },
	}
}

// showJSON is list's record with the manifest and the whole verification.
type showJSON struct {
	backupJSON
	Recipients   []string              `json:"recipients"` // that can open it now
	Manifest     *catalog.Manifest     `json:"manifest"`
	Verification *catalog.Verification `json:"verification"`
}

func runShow(ctx context.Context, o *showOptions, env *Env, ref string) error {
	b, err := findBackup(ctx, env, &o.common, ref)
	if err != nil {
		return err
	}
	if o.JSON {
		recipients := []string{}
		if b.Manifest != nil {
			recipients = append(recipients, b.Recipients()...)
		}
		return writeJSON(env.Stdout, showJSON{toJSON(b), recipients, b.Manifest, b.Verified})
	}
	fmt.Fprintf(env.Stdout, "Backup        %s\nServer        %s\nRepository    %s\nState         %s\n",
		b.ID, b.Server, b.Repository.Location(), b.State)
	if b.Manifest != nil {
		showManifest(env.Stdout, b.Manifest)
		showRecipients(env.Stdout, b)
	}
	showVerification(env.Stdout, b)
	return nil
}

// showManifest writes the manifest for people. The writer remembers its own failure.
func showManifest(w io.Writer, m *catalog.Manifest) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-13s %s\n", name, fmt.Sprintf(format, args...))
	}
	took := m.Finished.Sub(m.Started)
	line("Started", "%s, took %s", m.Started.Local().Format(time.RFC1123), progress.Duration(took))
	line("Taken by", "mbwrap %s on %s, source %s %s", m.Mbwrap, m.Host, m.Source, m.ToolVersion)
	line("Database", "MariaDB %s", m.ServerVersion)
	line("LSN", "from %d to %d, last %d", m.FromLSN, m.ToLSN, m.LastLSN)
	if m.Binlog != nil {
		line("Binary log", "%s position %d", m.Binlog.File, m.Binlog.Position)
		line("GTID", "%s", m.Binlog.GTID)
	} else {
		line("Binary log", "off")
	}
	line("Stream", "%s in %d files, %d chunks", progress.Size(m.RawBytes), m.Files, m.Chunks)
	line("Stored", "%s (%s) in %d volumes, %d blocks, %s", progress.Size(m.StoredBytes),
		progress.Ratio(m.RawBytes, m.StoredBytes), len(m.Volumes), m.Blocks, codecText(m))
	line("Speed", "%s in, %s out; bottleneck: %s", progress.Rate(m.RawBytes, took), progress.Rate(m.StoredBytes, took),
		m.Timings.Bottleneck)
	if m.Timings.Locked > 0 {
		line("Locks", "held for %s", progress.Duration(time.Duration(m.Timings.Locked*float64(time.Second))))
	}
	if len(m.ToolOptions) > 0 {
		line("Options", "%s", strings.Join(m.ToolOptions, " "))
	}
	if m.Partial {
		line("Partial", "yes: it does not hold all databases")
	}
	for _, warning := range m.Warnings {
		line("Warning", "%s", printable(warning))
	}
}

// showRecipients writes who can read the backup.
func showRecipients(w io.Writer, b *catalog.Backup) {
	if !b.Manifest.Encrypted {
		fmt.Fprintf(w, "Encrypted     no\n")
		return
	}
	for _, r := range b.Recipients() {
		fmt.Fprintf(w, "Encrypted to  %s\n", printable(r))
	}
}

// showVerification writes the last verification for people.
func showVerification(w io.Writer, b *catalog.Backup) {
	if b.Err != nil {
		fmt.Fprintf(w, "Problem       %s\n", printable(b.Err.Error()))
	}
	v := b.Verified
	if v == nil {
		fmt.Fprintf(w, "Verified      never\n")
		return
	}
	showCheck(w, "Verified", v)
	if v.Deeper != nil {
		showCheck(w, "Before", v.Deeper)
	}
	if v.Failure != nil {
		showCheck(w, "Before", v.Failure)
	}
}

// showCheck writes one verification for people.
func showCheck(w io.Writer, when string, v *catalog.Verification) {
	seconds := func(s float64) string { return progress.Duration(time.Duration(s * float64(time.Second))) }
	fmt.Fprintf(w, "%-13s %s, on %s in %s\n", when, checkText(v), printable(v.Host), seconds(v.Seconds))
	if v.Pages > 0 {
		fmt.Fprintf(w, "  pages       %d\n", v.Pages)
	}
	if v.Tables > 0 {
		fmt.Fprintf(w, "  tables      %d, by MariaDB %s\n", v.Tables, printable(v.ServerVersion))
	}
	if v.RTO > 0 {
		fmt.Fprintf(w, "  a restore   takes about %s until a server answers\n", seconds(v.RTO))
	}
	for _, p := range v.Problems {
		fmt.Fprintf(w, "Problem       %s\n", printable(p))
	}
}
