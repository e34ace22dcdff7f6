package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/xbstream"
)

type howtoOptions struct {
	common
	keyFlags
	Target string
}

func newHowto(env *Env) *command {
	o := &howtoOptions{Target: "/var/lib/mysql.restored"}
	return &command{
		name: "howto", summary: "print the commands that restore a backup without mbwrap", args: "BACKUP", least: 1, most: 1,
		about: "Prints a shell script that restores the backup with stock tools only: sha256sum, the codec's own program, " +
			"mbstream and mariadb-backup, and age if the backup is encrypted. Keep it with the backup for the day on which " +
			"mbwrap is not at hand. No key is needed to print it; with one it also says whether mbstream can read this backup.",
		examples: []string{
			"mbwrap howto latest --repo /backups",
			"mbwrap howto latest --repo /backups --target-dir /srv/restore | bash",
		},
		exits: []int{exitNoBackup},
		settings: append([]*setting{
			text(&o.Target, "target-dir", "DIR", "the data directory that the commands make"),
		}, o.keyFlags.settings()...),
		common: &o.common, places: true,
		run: func(ctx context.Context, in input) error { return runHowto(ctx, o, env, in.arg(0)) },
	}
}

// decoders are the stock commands that decode a stream from standard input to standard output.
var decoders = map[string]string{"zstd": "zstd -dc", "gzip": "gzip -dc", "lz4": "lz4 -dc", "none": "cat"}

// howtoJSON is what --json prints.
type howtoJSON struct {
	ID       string   `json:"id"`
	Commands []string `json:"commands"`
	Refused  string   `json:"mbstream_refuses"` // why mbstream can't extract this backup, "" if it can
}

func runHowto(ctx context.Context, o *howtoOptions, env *Env, ref string) error {
	b, err := findUsable(ctx, env, &o.common, ref)
	if err != nil {
		return err
	}
	commands, err := howto(b, o.Target)
	if err != nil {
		return err
	}
	refused, err := o.refused(ctx, env, b)
	if err != nil {
		return err
	}
	if o.JSON {
		return writeJSON(env.Stdout, howtoJSON{b.ID, commands, refused})
	}
	m := b.Manifest
	fmt.Fprintf(env.Stdout, `#!/bin/bash
# Restores backup %s of %s (MariaDB %s) with stock tools.
# Needs: sha256sum, %s, mbstream and mariadb-backup %s.
# Every line must succeed before the next one is run.
set -euo pipefail

`, b.ID, b.Server, printable(m.ServerVersion), programs(m), toolVersion(m))
	if refused != "" {
		fmt.Fprintf(env.Stdout, `# mbstream can't extract this backup, although it is good: %s.
# Restore it with mbwrap, or put "mbwrap extract - --target-dir" in the place of "mbstream -x -C" below and remove the
# next line.
echo "mbstream can't extract this backup; read this script" >&2; exit 1

`, refused)
		env.warnf("mbstream can't extract %s: %s; only mbwrap can", b.ID, refused)
	}
	for _, c := range commands {
		fmt.Fprintln(env.Stdout, c)
	}
	if m.Binlog != nil {
		fmt.Fprintf(env.Stdout, "\n# The data is that of %s position %d", printable(m.Binlog.File), m.Binlog.Position)
		if m.Binlog.GTID != "" {
			fmt.Fprintf(env.Stdout, ", GTID %s", printable(m.Binlog.GTID))
		}
		fmt.Fprintln(env.Stdout)
	}
	return nil
}

// refused tells why mbstream can't extract the backup. Of one that stays locked that is not known.
func (o *howtoOptions) refused(ctx context.Context, env *Env, b *catalog.Backup) (string, error) {
	ids, err := o.identities(ctx, env)
	if err != nil {
		return "", err
	}
	if b.Locked() {
		if ids == nil {
			return "", nil
		}
		if err := b.Unlock(ctx, ids); err != nil {
			return "", err
		}
	}
	index, err := b.Index(ctx)
	if err != nil {
		return "", err
	}
	return refusedByMbstream(index), nil
}

// programs names the programs that decode the volumes.
func programs(m *catalog.Manifest) string {
	decoder := strings.Fields(decoders[m.Codec])[0]
	switch {
	case !m.Encrypted:
		return decoder
	case slices.ContainsFunc(m.Recipients, func(r string) bool { return strings.HasPrefix(r, "age1pq1") }):
		return "age (1.3 or newer), " + decoder
	}
	return "age, " + decoder
}

// toolVersion names the release series that must prepare the backup.
func toolVersion(m *catalog.Manifest) string {
	if m.ToolVersion == "" {
		return "of the server's release"
	}
	return printable(m.ToolVersion)
}

// howto returns the commands, in order.
func howto(b *catalog.Backup, target string) ([]string, error) {
	m := b.Manifest
	decode, found := decoders[m.Codec]
	if !found {
		return nil, errorf("no stock command is known for codec %q", m.Codec)
	}
	root, err := filepath.Abs(strings.TrimPrefix(b.Repository.Location(), "file://"))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, b.Server, b.ID)
	var volumes []string
	for _, v := range m.Volumes {
		volumes = append(volumes, shellQuote(v.Name))
	}
	to := shellQuote(target)
	commands := []string{"cd " + shellQuote(dir), "sha256sum --quiet -c SHA256SUMS"}
	read := "cat " + strings.Join(volumes, " ")
	if m.Encrypted {
		commands = append(commands, openKey(b)...)
		read = fmt.Sprintf("for v in %s; do age -d -i \"$key\" \"$v\" || exit; done", strings.Join(volumes, " "))
	}
	return append(commands,
		"mkdir -m 700 "+to,
		fmt.Sprintf("%s | %s | mbstream -x -C %s", read, decode, to),
		// mbstream ends with status 0 on a stream that is cut between two chunks; the last file shows that it was not.
		fmt.Sprintf("test -s %[1]s/xtrabackup_info -o -s %[1]s/mariadb_backup_info", to),
		"mariadb-backup --prepare --target-dir="+to,
		"if [ \"$(id -u)\" = 0 ]; then chown -R mysql:mysql "+to+"; fi",
	), nil
}

// openKey returns the commands that open the backup's own identity, which the volumes are encrypted to. It stays in a
// private file, which goes when the script ends.
func openKey(b *catalog.Backup) []string {
	open := `age -d -i "${IDENTITY:?set it to the file with your age identity or SSH key}"`
	if slices.Contains(b.Recipients(), "passphrase") {
		open = "age -d"
	}
	return []string{"key=$(mktemp)", `trap 'rm -f "$key"' EXIT`, open + ` key.age > "$key"`}
}

// refusedByMbstream tells why mbstream (10.11.19) does not extract a stream that is good, or "". It checks the end of a
// file against the checksum of the chunk before, which behind a rename is not the file's; and it stops, with status 0,
// at a file that is sent again as an empty one.
func refusedByMbstream(index *catalog.Index) string {
	renamed := false
	ended := make(map[string]bool)
	versions := index.Versions()
	for c := range index.Chunks() {
		switch c.Type {
		case xbstream.TypePayload, xbstream.TypeSparse:
			renamed = false
		case xbstream.TypeRename:
			renamed = true
			if ended[c.Path] {
				delete(ended, c.Path)
				ended[c.NewPath] = true
			}
		case xbstream.TypeRemove:
			delete(ended, c.Path)
		case xbstream.TypeEnd:
			if renamed {
				return "tables were renamed while it was taken"
			}
			if ended[c.Path] && versions[c.File].Chunks == 1 {
				return "tables were emptied while it was taken"
			}
			ended[c.Path] = true
		}
	}
	return ""
}

// shellQuote makes s one word of a shell.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
