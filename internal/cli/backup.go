package cli

import (
	"context"
	"slices"
	"time"

	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/mariadb"
)

type backupOptions struct {
	common
	serverFlags
	hookFlags
	sealFlags
	Type         string
	Codec, Level string
	Jobs         int
	VolumeSize   int64
	Verify       string
	Scratch      string
	SkipCheck    bool
	CheckPages   bool
	Stdin        bool
	To           string
	Expect       string
	Create       bool
	FailOnShrink bool
	MaxRuntime   time.Duration
	StallTimeout time.Duration
	WaitLock     time.Duration
	LimitRate    int64
	KillAfter    time.Duration
	Nice         int

	rest []string // options for the tool
}

// serverFlags say how to reach the tool and the server.
type serverFlags struct {
	Tool         string
	DefaultsFile string
	User         string
	Socket       string
	Host         string
	Port         int
	PasswordFile string
	Password     string
}

func (s *serverFlags) settings() []*setting {
	return []*setting{
		text(&s.Tool, "tool", "PATH", "the mariadb-backup to run (default: found in PATH and the usual places)"),
		text(&s.DefaultsFile, "defaults-file", "FILE", "read MariaDB's options from this file only"),
		text(&s.User, "user", "NAME", "the database user"),
		text(&s.Socket, "socket", "PATH", "the server's socket"),
		text(&s.Host, "host", "NAME", "the server's address; it must be this machine"),
		number(&s.Port, "port", "N", "the server's port"),
		text(&s.PasswordFile, "password-file", "FILE", "the file whose first line is the database user's password"),
		secret(&s.Password, "password", "the database user's password"),
	}
}

// connect returns where the server is.
func (s *serverFlags) connect() (mariadb.ConnectOptions, error) {
	password := s.Password
	if s.PasswordFile != "" {
		var err error
		if password, err = readSecretFile("password", s.PasswordFile); err != nil {
			return mariadb.ConnectOptions{}, err
		}
	}
	return mariadb.ConnectOptions{
		DefaultsFile: s.DefaultsFile, User: s.User, Password: password, Socket: s.Socket, Host: s.Host, Port: s.Port,
	}, nil
}

func newBackup(env *Env) *command {
	o := &backupOptions{
		Type: "full", Codec: "zstd", Level: "auto", Verify: "none", Expect: "backup", Create: true, CheckPages: true,
		VolumeSize: 64 << 30, StallTimeout: time.Hour, KillAfter: 10 * time.Second,
	}
	return &command{
		name: "backup", summary: "take a backup", rest: "mariadb-backup options",
		about: "Runs mariadb-backup --backup --stream, checks the stream while it is made, compresses it on all cores and " +
			"commits it to the repository only when everything is proven complete. What can't be proven is not listed, " +
			"and the exit status is not 0. Success is silent without a terminal. A repository that does not exist yet is " +
			"created; --no-create refuses to, which keeps a backup from landing on a disk that was not mounted.\n\n" +
			"--stdin and --to are the last stages of a shell pipeline in one process: --stdin takes the stream from " +
			"standard input, --to writes one compressed stream to a file or standard output instead of a repository.\n\n" +
			"--encrypt-to encrypts everything but the manifest with age, to people's or an escrow's public keys: this host " +
			"can then write backups but not read them, and neither can whoever stores them. --verify still works, right " +
			"after the backup.",
		examples: []string{
			"mbwrap backup --repo /backups",
			"mbwrap backup --repo /backups --repo /mnt/nas --verify read # two places in one pass, then read back",
			"mbwrap backup --repo /backups --encrypt-to age1… # made with: mbwrap keygen FILE",
			"mbwrap backup --repo /backups --defaults-file /etc/mysql/backup.cnf -- --databases='shop crm'",
			"mariadb-backup --backup --stream=mbstream | mbwrap backup --stdin --to /backups/full.xbs.zst",
			"mbwrap backup --to - --codec gzip | ssh store 'cat > full.xbs.gz'",
		},
		exits:    []int{exitWarnings, exitSource, exitStream, exitSink, exitDamage, exitLocked, exitTimeout},
		settings: slices.Concat(o.own(), o.sealFlags.settings(), o.serverFlags.settings(), o.hookFlags.settings()),
		common:   &o.common, places: true,
		run: func(ctx context.Context, in input) error {
			o.rest = in.rest
			return runHooked(ctx, o, env)
		},
	}
}

// own returns the flags that are the command's own.
func (o *backupOptions) own() []*setting {
	return []*setting{
		text(&o.Type, "type", "TYPE", "full, or auto, which takes a full one too in this version").among("full", "auto"),
		text(&o.Codec, "codec", "CODEC", "zstd, gzip, lz4 or none").among("zstd", "gzip", "lz4", "none"),
		text(&o.Level, "level", "N", "gzip 1-9, lz4 1-9, zstd 1-19, or auto"),
		number(&o.Jobs, "jobs", "N", "compression workers (default: one a core)"),
		bytesize(&o.VolumeSize, "volume-size", "SIZE", "stored bytes after which a new volume begins; 0: one volume"),
		text(&o.Verify, "verify", "LEVEL", "verify the backup after the commit: none, hash, read, pages or restore").
			among(append([]string{"none"}, levelNames()...)...),
		text(&o.Scratch, "scratch-dir", "DIR", "where --verify restore puts its files (default: $TMPDIR, or /var/tmp)"),
		toggle(&o.CheckPages, "check-pages", "check the checksum of every InnoDB page as it passes by"),
		toggle(&o.SkipCheck, "skip-check", "no look at the server before the run"),
		toggle(&o.Stdin, "stdin", "take the stream from standard input instead of running the tool"),
		text(&o.To, "to", "FILE", "write one compressed stream to FILE, or - for standard output; no repository"),
		text(&o.Expect, "expect", "WHAT", "backup: a whole backup; any: any well-formed stream, with --to").
			among("backup", "any"),
		toggle(&o.Create, "create", "create the repository if there is none yet"),
		toggle(&o.FailOnShrink, "fail-on-shrink", "do not commit a backup less than half as large as the last"),
		span(&o.MaxRuntime, "max-runtime", "TIME", "stop the run after this long"),
		span(&o.StallTimeout, "stall-timeout", "TIME", "stop the run when no byte came for this long; 0: never"),
		span(&o.WaitLock, "wait-lock", "TIME", "wait this long for another run to end"),
		bytesize(&o.LimitRate, "limit-rate", "SIZE", "read at most this much a second"),
		span(&o.KillAfter, "kill-after", "TIME", "kill the tool when it has not ended this long after it was asked to"),
		number(&o.Nice, "nice", "N", "lower the tool's priority by N, 1 to 19"),
	}
}

// codec returns the codec and the level asked for.
func (o *backupOptions) codec() (*codec.Codec, int, error) {
	row, err := codec.Lookup(o.Codec)
	if err != nil {
		return nil, 0, usagef("--codec: %w", err)
	}
	level, err := row.ParseLevel(o.Level)
	if err != nil {
		return nil, 0, usagef("--level: %w", err)
	}
	return row, level, nil
}

// check refuses flags that contradict each other.
func (o *backupOptions) check() error {
	switch {
	case o.Stdin && len(o.rest) > 0:
		return usagef("--stdin runs no tool: what are %s for?", quoted(o.rest))
	case o.To != "" && len(o.Repos) > 0 && !repoIsDefault(&o.common):
		return usagef("--to and --repo: where is the backup to go?")
	case o.To != "" && o.Verify != "none":
		return usagef("--verify works on backups in a repository, not with --to")
	case o.Expect == "any" && o.To == "":
		return usagef("--expect any goes with --to: a repository holds whole backups of a server")
	case o.Nice > 19:
		return usagef("--nice: want 0 to 19, got %d", o.Nice)
	}
	return nil
}

// repoIsDefault tells whether --repo was not given on the command line: one from the environment or the file gives way
// to --to.
func repoIsDefault(c *common) bool {
	for _, s := range c.places() {
		if s.name == "repo" {
			return s.source != "--repo"
		}
	}
	return true
}
