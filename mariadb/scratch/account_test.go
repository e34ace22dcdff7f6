package scratch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb/internal/scratchtest"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
)

// serverAccount returns the account of MariaDB's packages. We must be root.
func serverAccount(t *testing.T) *user.User {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Missing(t, "root", "to become somebody else")
	}
	u, err := user.Lookup("mysql")
	if err != nil {
		testenv.Missing(t, "mysql", err.Error())
	}
	return u
}

// passable lets others into the directories of this test.
func passable(t *testing.T) {
	t.Helper()
	if err := os.Chmod(filepath.Dir(t.TempDir()), 0o755); err != nil {
		t.Fatal(err)
	}
}

// uidOf tells whose process it is.
func uidOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nUid:")
	return strings.Fields(rest)[0]
}

// TestRootStepsDown: restored data that belong to root are not run as root.
func TestRootStepsDown(t *testing.T) {
	t.Parallel()
	u := serverAccount(t)
	passable(t)
	s := restored(t, "CREATE DATABASE d; CREATE TABLE d.t (a INT)")
	scratchtest.Start(t, s)
	if got := uidOf(t, s.PID()); got != u.Uid {
		t.Errorf("got a server of account %s, want %s", got, u.Uid)
	}
	scratchtest.Exec(t, s, "INSERT INTO d.t VALUES (1)")

	// Where that account can't get to, root has to do.
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(t.TempDir(), "hidden")
	dir := filepath.Join(hidden, "data")
	if err := errors.Join(os.Mkdir(hidden, 0o700), os.Rename(s.Dir, dir)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error { return errors.Join(err, os.Lchown(path, 0, 0)) })
	if err != nil {
		t.Fatal(err)
	}
	other := &scratch.Server{Dir: dir, Restored: true}
	scratchtest.Start(t, other)
	if got := uidOf(t, other.PID()); got != "0" {
		t.Errorf("got a server of account %s, want 0", got)
	}
}

// TestOrdinaryUser: it works for somebody who is not root, on data of their own. The test binary runs itself as one.
func TestOrdinaryUser(t *testing.T) {
	if dir := os.Getenv("SCRATCH_TEST_DATA"); dir != "" {
		s := &scratch.Server{Dir: dir, Restored: true}
		scratchtest.Start(t, s)
		all, err := s.CheckTables(t.Context(), scratch.CheckOptions{})
		if err != nil || len(all) < 20 {
			t.Errorf("got %d tables, error %v", len(all), err)
		}
		return
	}
	t.Parallel()
	u := serverAccount(t)
	passable(t)
	var uid, gid int
	if _, err := fmt.Sscan(u.Uid+" "+u.Gid, &uid, &gid); err != nil {
		t.Fatal(err)
	}
	s := restored(t, "CREATE DATABASE d")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "scratch.test")
	copyFile(t, exe, copied)
	err = errors.Join(os.Chmod(copied, 0o755), filepath.WalkDir(s.Dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, gid))
	}))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), copied, "-test.run=^TestOrdinaryUser$", "-test.v")
	cmd.Env = append(os.Environ(), "SCRATCH_TEST_DATA="+s.Dir, "TMPDIR=/tmp", "HOME=/nonexistent", "GOCOVERDIR=")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("got %v: %s", err, out)
	}
}

// TestLongTemporaryPath: a socket's path may have 107 bytes.
func TestLongTemporaryPath(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 60), strings.Repeat("y", 60))
	if err := os.MkdirAll(long, 0o755); err != nil {
		t.Fatal(err)
	}
	s := restored(t, "SELECT 1")
	t.Setenv("TMPDIR", long)
	scratchtest.Start(t, s)
	if got := len(s.Socket()); got > 107 {
		t.Errorf("got a path of %d bytes, want at most 107", got)
	}
}

// TestStartTimeout: a server that takes too long is ended.
func TestStartTimeout(t *testing.T) {
	t.Parallel()
	s := restored(t, "SELECT 1")
	s.Timeout = time.Millisecond
	if err := s.Start(t.Context()); !errors.Is(err, scratch.ErrSilent) {
		t.Errorf("got %v, want %v", err, scratch.ErrSilent)
	}
	if s.PID() != 0 {
		t.Errorf("got process %d, want none", s.PID())
	}
}

// TestEncrypted: encrypted tables need their keys: without them nothing can be said of them.
func TestEncrypted(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("1;"+strings.Repeat("0123456789abcdef", 4)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	plugin := []string{"--plugin-load-add=file_key_management", "--file-key-management-filename=" + keys}
	s := restored(t, "CREATE DATABASE d; USE d; CREATE TABLE d.e (a INT) ENCRYPTED=YES; INSERT INTO d.e SELECT seq FROM seq_1_to_1000; CREATE TABLE d.t (a INT)", plugin...)
	find := func(s *scratch.Server) scratch.Table {
		all, err := s.CheckTables(t.Context(), scratch.CheckOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range all {
			if table.String() == "d.e" {
				return table
			}
		}
		t.Fatal("no table d.e")
		return scratch.Table{}
	}
	scratchtest.Start(t, s)
	if got := find(s); got.Status != scratch.StatusNotChecked || len(got.Messages) == 0 {
		t.Errorf("without keys: got %s %q, want it not checked", got.Status, got.Messages)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s.Args = plugin
	scratchtest.Start(t, s)
	if got := find(s); got.Status != scratch.StatusOK {
		t.Errorf("with keys: got %s %q, want ok", got.Status, got.Messages)
	}
}
