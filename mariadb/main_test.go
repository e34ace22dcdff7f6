package mariadb_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
