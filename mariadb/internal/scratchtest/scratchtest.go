// Package scratchtest gives the tests of the MariaDB packages running servers and fake tools. Only tests may import it.
package scratchtest

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
)

// Kit makes servers. The zero Kit is ready; Close removes what it keeps. It may be used from several tests at a time.
type Kit struct {
	once     sync.Once
	template string // a data directory made once: copying it is faster than making another
	err      error
}

// DataDir returns a fresh data directory of a server.
func (k *Kit) DataDir(t testing.TB) string {
	t.Helper()
	k.once.Do(func() {
		if k.template, k.err = os.MkdirTemp("", "mbwrap-test-"); k.err == nil {
			k.err = (&scratch.Server{Dir: filepath.Join(k.template, "data")}).Init(t.Context())
		}
	})
	if k.err != nil {
		t.Fatal(k.err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(k.template, "data"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Close removes the template. It may be called again.
func (k *Kit) Close() error {
	if k.template == "" {
		return nil
	}
	return os.RemoveAll(k.template)
}

// New returns a running server with a data directory of its own. It is killed at the end, which is faster than a
// shutdown.
func (k *Kit) New(t testing.TB, args ...string) *scratch.Server {
	t.Helper()
	s := &scratch.Server{Dir: k.DataDir(t), Args: args}
	Start(t, s)
	return s
}

// Start starts a server for the rest of the test.
func Start(t testing.TB, s *scratch.Server) {
	t.Helper()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	})
}

// Exec runs statements.
func Exec(t testing.TB, s *scratch.Server, query string) {
	t.Helper()
	if _, err := s.DB().ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// AsRoot reaches a scratch server as root, reading no option files.
func AsRoot(s *scratch.Server) mariadb.ConnectOptions {
	return mariadb.ConnectOptions{DefaultsFile: "/dev/null", User: "root", Socket: s.Socket()}
}

// FakeTool writes a shell script that stands in for mariadb-backup and returns its path.
func FakeTool(t testing.TB, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mariadb-backup")
	// The text comes from a file of its own, which nobody executes, so that no child forked meanwhile can hold an
	// executable open for writing for long.
	wrapper := "#!/bin/sh\n. " + path + ".sh\n"
	err := errors.Join(os.WriteFile(path+".sh", []byte(script), 0o600), os.WriteFile(path, []byte(wrapper), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
