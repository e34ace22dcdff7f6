package scratch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb/internal/scratchtest"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
)

func TestScratch(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mariadbd")
	s := kit.New(t)
	scratchtest.Exec(t, s, "CREATE DATABASE `we``ird`; CREATE TABLE `we``ird`.`t 1` (a int) ENGINE=MyISAM; CREATE TABLE `we``ird`.u (a int)")
	scratchtest.Exec(t, s, "INSERT INTO `we``ird`.u VALUES (1), (2)")
	want, err := s.Checksums(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(want) != 2 || want["we`ird.u"] == 0 {
		t.Fatalf("got %v, want two tables, the second with a sum", want)
	}
	socket := s.Socket()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(socket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("private directory after Stop: got %v, want not exist", err)
	}
	if s.DB() != nil || s.PID() != 0 || s.Socket() != "" {
		t.Errorf("after Stop: got handle %v, pid %d, socket %q, want none", s.DB(), s.PID(), s.Socket())
	}

	again := &scratch.Server{Dir: s.Dir, SkipGrants: true}
	scratchtest.Start(t, again)
	got, err := again.Checksums(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) || got["we`ird.u"] != want["we`ird.u"] {
		t.Errorf("after restart: got %v, want %v", got, want)
	}
}

func TestScratchFailures(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mariadbd")
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		run  func() error
		want string
	}{
		{"init in a full directory", func() error { return (&scratch.Server{Dir: full}).Init(t.Context()) }, "is not empty"},
		{"init with a bad option", func() error {
			return (&scratch.Server{Dir: filepath.Join(t.TempDir(), "d"), Args: []string{"--innodb-page-size=5k"}}).Init(t.Context())
		}, "mariadb-install-db: exit status"},
		{"init cancelled", func() error { return (&scratch.Server{Dir: filepath.Join(t.TempDir(), "d")}).Init(cancelled) }, "context canceled"},
		{"start without data", func() error { return (&scratch.Server{Dir: t.TempDir()}).Start(t.Context()) }, "ERROR"},
		{"start without directory", func() error { return (&scratch.Server{Dir: filepath.Join(full, "none")}).Start(t.Context()) }, "no such file"},
		{"start cancelled", func() error { return (&scratch.Server{Dir: t.TempDir()}).Start(cancelled) }, "does not answer"},
		{"checksums of nothing", func() error { _, err := (&scratch.Server{}).Checksums(t.Context()); return err }, "does not run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.run()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestScratchTwiceAndKill(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mariadbd")
	s := kit.New(t)
	if err := s.Start(t.Context()); err == nil {
		t.Error("second Start: got no error")
	}
	started := time.Now()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(started); d > 5*time.Second {
		t.Errorf("Kill took %v", d)
	}
	scratchtest.Start(t, s) // recovers
}
