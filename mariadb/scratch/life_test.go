package scratch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
)

// gone tells whether a process has ended.
func gone(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

// TestServerDiesWithUs: when this process is killed, the server goes, too. The test binary runs itself as the process
// to be killed.
func TestServerDiesWithUs(t *testing.T) {
	if dir := os.Getenv("SCRATCH_TEST_LIFE"); dir != "" {
		s := &scratch.Server{Dir: filepath.Join(dir, "data"), Restored: true}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "pid"), fmt.Append(nil, s.PID()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(os.Getpid(), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	t.Parallel()
	s := restored(t, "SELECT 1")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(s.Dir)
	attr := &os.ProcAttr{Env: append(os.Environ(), "SCRATCH_TEST_LIFE="+dir, "TMPDIR="+t.TempDir()), Files: []*os.File{nil, nil, nil}}
	parent, err := os.StartProcess(exe, []string{exe, "-test.run=^TestServerDiesWithUs$"}, attr)
	if err != nil {
		t.Fatal(err)
	}
	state, err := parent.Wait()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatalf("parent ended with %v: %v", state, err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); !gone(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("server %d lives on", pid)
		}
	}
}

// TestCancelledCheck: a check under way ends with its context, the server stays until it is stopped, and then nothing
// is left.
func TestCancelledCheck(t *testing.T) {
	t.Parallel()
	s := running(t)
	ctx, cancel := context.WithCancel(t.Context())
	before := func(context.Context, string) { cancel() }
	if _, _, err := s.CheckWith(ctx, "d", scratch.CheckOptions{Parallel: 2}, before); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if err := s.DB().PingContext(t.Context()); err != nil {
		t.Errorf("after it: got %v, want the server to answer", err)
	}
	pid, private := s.PID(), filepath.Dir(s.Socket())
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(private); !gone(pid) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Stop: process gone: %v, private directory: %v", gone(pid), err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

// TestWrongOptions: a server that does not know an option says so.
func TestWrongOptions(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mariadbd")
	s := restored(t, "SELECT 1")
	s.Args = []string{"--no-such-option=1"}
	if err := s.Start(t.Context()); !errors.Is(err, scratch.ErrEnded) || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("got %v, want %v and the option", err, scratch.ErrEnded)
	}
}
