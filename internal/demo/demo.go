package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mbwrap/mbwrap/internal/gendata"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
)

// demo is one run.
type demo struct {
	screen  *screen
	program string // mbwrap
	work    string // the scratch folder
	size    int64
	server  *scratch.Server // the one that runs, or nil

	atBackup, changed, restored map[string]uint64 // CHECKSUM TABLE by name
	recipient                   string            // the public half of the key in the file key
	backup                      backupFacts
	backupTime, restoreTime     time.Duration
}

// backupFacts is what mbwrap list --json tells about a backup, as far as it is shown here.
type backupFacts struct {
	ID          string `json:"id"`
	State       string `json:"state"`
	RawBytes    int64  `json:"raw_bytes"`
	StoredBytes int64  `json:"stored_bytes"`
}

func (d *demo) repo() string   { return filepath.Join(d.work, "backups") }
func (d *demo) target() string { return filepath.Join(d.work, "restored") }
func (d *demo) key() string    { return filepath.Join(d.work, "operator.key") }

// run goes through the steps; the first that fails ends it.
func (d *demo) run(ctx context.Context) error {
	d.screen.title("mbwrap: a backup that restores")
	d.screen.note("everything happens in %s and is removed at the end", d.work)
	for _, step := range []func(context.Context) error{
		d.startServer, d.load, d.makeKey, d.takeBackup, d.listBackups, d.verifyBackup, d.changeData, d.restoreBackup,
		d.startRestored, d.compare,
	} {
		if err := step(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	d.summary(ctx)
	return nil
}

// close stops the server that runs, if any.
func (d *demo) close() error {
	if d.server == nil {
		return nil
	}
	err := d.server.Stop()
	d.server = nil
	return err
}

func (d *demo) startServer(ctx context.Context) error {
	done := d.screen.begin("Start a throwaway MariaDB on a private socket")
	defer done()
	s := &scratch.Server{Dir: filepath.Join(d.work, "server"), Args: []string{
		"--innodb-buffer-pool-size=256M", "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync",
		"--innodb-doublewrite=0", "--log-bin=bin",
	}}
	if err := s.Init(ctx); err != nil {
		return err
	}
	return d.start(ctx, s)
}

func (d *demo) start(ctx context.Context, s *scratch.Server) error {
	if err := s.Start(ctx); err != nil {
		return err
	}
	d.server = s
	var version string
	if err := s.DB().QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return err
	}
	d.screen.say("MariaDB %s, data in %s", version, s.Dir)
	return nil
}

func (d *demo) load(ctx context.Context) error {
	done := d.screen.begin("Load data of two kinds, and a table of every sort that needs care")
	defer done()
	rows := 0
	err := gendata.Load(ctx, d.server.DB(), gendata.Options{
		Sysbench: d.size / 2, TPCC: d.size / 2, Special: true, Seed: 1,
		OnTable: func(_ string, n int) { rows += n },
	})
	if err != nil {
		return err
	}
	if d.atBackup, err = d.server.Checksums(ctx); err != nil {
		return err
	}
	var bytes int64
	const query = "SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces"
	if err := d.server.DB().QueryRowContext(ctx, query).Scan(&bytes); err != nil {
		return err
	}
	d.screen.say("%d rows in %d tables, %s: random digits as sysbench makes them, business rows as in TPC-C",
		rows, len(d.atBackup), megabytes(bytes))
	d.screen.say("CHECKSUM TABLE of all %d noted", len(d.atBackup))
	return nil
}

// makeKey makes the key that the backup is encrypted to. A real one would be made, and stay, on another host.
func (d *demo) makeKey(ctx context.Context) error {
	d.screen.begin("Make a key: the database host gets the public half only")
	d.screen.command([]string{"mbwrap", "keygen", d.key()})
	out, err := exec.CommandContext(ctx, d.program, "keygen", d.key()).Output()
	if err != nil {
		return fmt.Errorf("mbwrap keygen: %w", err)
	}
	d.recipient = strings.TrimSpace(string(out))
	d.screen.say("%s", d.recipient)
	return nil
}

func (d *demo) takeBackup(ctx context.Context) error {
	done := d.screen.begin("Back it up, encrypted")
	defer done()
	started := time.Now()
	err := d.mbwrap(ctx, "backup", "--repo", d.repo(), "--server", "demo", "--encrypt-to", d.recipient,
		"--user", "root", "--socket", d.server.Socket(), "-v")
	if err != nil {
		return err
	}
	d.backupTime = time.Since(started)
	return d.readFacts(ctx)
}

// readFacts asks mbwrap about the backup, in the way a program would.
func (d *demo) readFacts(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, d.program, "list", "--repo", d.repo(), "--server", "demo", "--json").Output()
	if err != nil {
		return fmt.Errorf("mbwrap list --json: %w", err)
	}
	var all []backupFacts
	if err := json.Unmarshal(out, &all); err != nil {
		return fmt.Errorf("mbwrap list --json: %w", err)
	}
	if len(all) != 1 {
		return fmt.Errorf("mbwrap list --json: got %d backups, want 1", len(all))
	}
	d.backup = all[0]
	return nil
}

func (d *demo) listBackups(ctx context.Context) error {
	d.screen.begin("See what there is")
	return d.mbwrap(ctx, "list", "--repo", d.repo(), "--server", "demo")
}

func (d *demo) verifyBackup(ctx context.Context) error {
	done := d.screen.begin("Verify it: every byte, every page, and a server that checks every table of a trial restore")
	defer done()
	return d.mbwrap(ctx, "verify", "--repo", d.repo(), "--server", "demo", "--identity", d.key(), "--level", "restore",
		"--scratch-dir", d.work, "-v", "latest")
}

func (d *demo) changeData(ctx context.Context) error {
	done := d.screen.begin("Have a bad day")
	defer done()
	steps, err := gendata.Change(ctx, d.server.DB())
	if err != nil {
		return err
	}
	for _, s := range steps {
		d.screen.say("%s", s)
	}
	if d.changed, err = d.server.Checksums(ctx); err != nil {
		return err
	}
	return d.close()
}

func (d *demo) restoreBackup(ctx context.Context) error {
	done := d.screen.begin("Restore")
	defer done()
	started := time.Now()
	err := d.mbwrap(ctx, "restore", "--repo", d.repo(), "--server", "demo", "--identity", d.key(),
		"--target-dir", d.target(), "-v", "latest")
	d.restoreTime = time.Since(started)
	return err
}

func (d *demo) startRestored(ctx context.Context) error {
	done := d.screen.begin("Start a server on the restored directory")
	defer done()
	if err := d.start(ctx, &scratch.Server{Dir: d.target()}); err != nil {
		return err
	}
	var err error
	d.restored, err = d.server.Checksums(ctx)
	return err
}

// mbwrap runs the program as a user would, its output set off. On a terminal it may draw: then it has the terminal to
// itself.
func (d *demo) mbwrap(ctx context.Context, args ...string) error {
	d.screen.command(append([]string{"mbwrap"}, args...))
	cmd := exec.CommandContext(ctx, d.program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // it stops its tool and tidies up
	cmd.WaitDelay = 30 * time.Second
	if d.screen.colour {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	} else {
		out := &indent{out: d.screen.out}
		cmd.Stdout, cmd.Stderr = out, out
	}
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("mbwrap %s: %w", args[0], err), context.Cause(ctx))
	}
	return nil
}
