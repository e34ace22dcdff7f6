package mariadb_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if template.dir != "" {
			_ = os.RemoveAll(template.dir)
		}
		os.Exit(code)
	}))
}

// template is a data directory made once: copying it is faster than making another.
var template struct {
	sync.Mutex
	dir string
}

// newDataDir returns a fresh data directory of a server.
func newDataDir(t *testing.T) string {
	t.Helper()
	testenv.Need(t, "mariadbd")
	template.Lock()
	defer template.Unlock()
	if template.dir == "" {
		dir, err := os.MkdirTemp("", "mbwrap-test-")
		if err != nil {
			t.Fatal(err)
		}
		template.dir = dir
		s := &mariadb.Scratch{Dir: filepath.Join(dir, "data")}
		if err := s.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(template.dir, "data"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// fakeTool writes a shell script that stands in for mariadb-backup and returns its path.
func fakeTool(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mariadb-backup")
	// Written by another process, so that no child forked meanwhile holds it open for writing.
	if err := os.WriteFile(path+".sh", []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	wrapper := "#!/bin/sh\n. " + path + ".sh\n"
	if err := os.WriteFile(path, []byte(wrapper), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
