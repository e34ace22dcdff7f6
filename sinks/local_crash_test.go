package sinks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

var background = context.Background() // for helpers, which have no test

const crashData = "three pieces of data"

// crashCreate stores an object in three pieces.
func crashCreate(l *Local) error {
	w, err := l.Create(background, "srv/id/object")
	if err != nil {
		return err
	}
	for _, piece := range []string{crashData[:5], crashData[5:12], crashData[12:]} {
		if _, err := io.WriteString(w, piece); err != nil {
			return err
		}
	}
	return w.Commit()
}

// createSteps are the steps of crashCreate, and replaceSteps those of Replace.
var (
	createSteps  = []string{"create", "write", "write", "write", "sync", "close", "rename", "sync folder", "sync parents"}
	replaceSteps = []string{"create", "write", "sync", "close", "rename", "sync folder", "sync parents"}
)

func TestStepsAreAll(t *testing.T) {
	for name, c := range map[string]struct {
		want []string
		do   func(*Local) error
	}{
		"create":  {createSteps, crashCreate},
		"replace": {replaceSteps, func(l *Local) error { return l.Replace(background, "srv/id/object", []byte(crashData)) }},
	} {
		l := newLocal(t)
		var got []string
		l.step = func(step string) error { got = append(got, step); return nil }
		if err := c.do(l); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v, want %q, nil", name, got, err, c.want)
		}
	}
}

func TestKilledBetweenSteps(t *testing.T) {
	for what, steps := range map[string][]string{"create": createSteps, "replace": replaceSteps} {
		for n, step := range steps {
			t.Run(fmt.Sprintf("%s %d before %s", what, n, step), func(t *testing.T) {
				dir := t.TempDir()
				runKilled(t, helper(t, what, n, dir))
				l := openLocal(t, dir)
				visible := n > slices.Index(steps, "rename")
				checkAfterCrash(t, l, visible, n > 0 && !visible)
				err := crashCreate(l) // the next run
				if visible != errors.Is(err, fs.ErrExist) || (!visible && err != nil) {
					t.Errorf("next run: got %v, want fs.ErrExist: %v", err, visible)
				}
				if got := readAll(t, l, "srv/id/object"); got != crashData {
					t.Errorf("object: got %q, want %q", got, crashData)
				}
			})
		}
	}
}

// runKilled runs a helper that must die of SIGKILL.
func runKilled(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("helper: got %v, want killed", err)
	}
}

// checkAfterCrash checks what a dead run left, and that it can be cleared away.
func checkAfterCrash(t *testing.T, l *Local, visible, leftover bool) {
	t.Helper()
	infos, err := l.List(t.Context(), "")
	if err != nil || (len(infos) == 1) != visible {
		t.Errorf("list: got %v, %v, want an object: %v", infos, err, visible)
	}
	if visible && infos[0].Size != int64(len(crashData)) {
		t.Errorf("size: got %d, want %d", infos[0].Size, len(crashData))
	}
	left, err := l.Leftovers(t.Context(), "srv/")
	if err != nil || (len(left) == 1) != leftover {
		t.Fatalf("leftovers: got %v, %v, want one: %v", left, err, leftover)
	}
	for _, info := range left {
		if err := l.RemoveLeftover(t.Context(), info.Name); err != nil {
			t.Errorf("remove leftover: got %v, want nil", err)
		}
		if err := l.RemoveLeftover(t.Context(), info.Name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("remove leftover twice: got %v, want fs.ErrNotExist", err)
		}
		checkEmpty(t, l)
	}
}

// A crash between the two steps of link and unlink leaves both names of one file.
func TestKilledBetweenLinkAndUnlink(t *testing.T) {
	dir := t.TempDir()
	cmd := startHelper(t, "write", dir)
	kill(t, cmd)
	l := openLocal(t, dir)
	left, err := l.Leftovers(t.Context(), "")
	if err != nil || len(left) != 1 {
		t.Fatalf("leftovers: got %v, %v, want one, nil", left, err)
	}
	if err := l.root.Link(left[0].Name, "srv/id/object"); err != nil {
		t.Fatal(err)
	}
	if err := l.RemoveLeftover(t.Context(), left[0].Name); err != nil {
		t.Errorf("remove leftover: got %v, want nil", err)
	}
	if got := readAll(t, l, "srv/id/object"); got != crashData {
		t.Errorf("object: got %q, want %q", got, crashData)
	}
}

func TestLeftoversOfLivingAndDead(t *testing.T) {
	dir := t.TempDir()
	cmd := startHelper(t, "write", dir)
	l := openLocal(t, dir)
	if got, err := l.Leftovers(t.Context(), ""); err != nil || len(got) != 0 {
		t.Errorf("leftovers while the writer lives: got %v, %v, want none, nil", got, err)
	}
	temps, err := filepath.Glob(dir + "/srv/id/" + tempPrefix + "*")
	if err != nil || len(temps) != 1 {
		t.Fatalf("got %v, %v, want one temporary file", temps, err)
	}
	name := "srv/id/" + filepath.Base(temps[0])
	var locked *LockedError
	if err := l.RemoveLeftover(t.Context(), name); !errors.As(err, &locked) {
		t.Errorf("remove leftover while the writer lives: got %v, want a LockedError", err)
	}
	kill(t, cmd)
	got, err := l.Leftovers(t.Context(), "srv/i")
	if err != nil || len(got) != 1 || got[0].Name != name || got[0].Size != int64(len(crashData)) || got[0].ModTime.IsZero() {
		t.Errorf("leftovers of the dead: got %+v, %v, want %s with %d bytes", got, err, name, len(crashData))
	}
	if got, err := l.Leftovers(t.Context(), "other"); err != nil || len(got) != 0 {
		t.Errorf("leftovers elsewhere: got %v, %v, want none, nil", got, err)
	}
	if err := l.RemoveLeftover(t.Context(), name); err != nil {
		t.Errorf("remove leftover: got %v, want nil", err)
	}
	checkEmpty(t, l)
}

func TestLockOfDeadHolder(t *testing.T) {
	dir := t.TempDir()
	cmd := startHelper(t, "lock", dir)
	l := openLocal(t, dir)
	_, err := l.Lock(t.Context(), "srv/run", []byte("me"))
	var locked *LockedError
	if !errors.As(err, &locked) || string(locked.Owner) != "helper" {
		t.Fatalf("lock: got %v, want a LockedError with owner helper", err)
	}
	kill(t, cmd)
	if _, err := os.Stat(dir + "/srv/" + lockPrefix + "run"); err != nil {
		t.Errorf("file of the dead holder: got %v, want it there", err)
	}
	k, err := l.Lock(t.Context(), "srv/run", []byte("me"))
	if err != nil {
		t.Fatalf("lock after the holder's death: got %v, want nil", err)
	}
	if _, err := l.Lock(t.Context(), "srv/run", nil); !errors.As(err, &locked) || string(locked.Owner) != "me" {
		t.Errorf("lock: got %v, want a LockedError with owner me", err)
	}
	if err := k.Unlock(); err != nil {
		t.Errorf("unlock: got %v, want nil", err)
	}
	if got := tree(t, l); !slices.Equal(got, []string{"srv"}) { // the folder was made by the dead
		t.Errorf("left: got %q, want srv only", got)
	}
}

// Those who clear leftovers away never hit a writer, not even in the moment between the birth of its file and its lock.
func TestScavengerAndNewborn(t *testing.T) {
	l := newLocal(t)
	const objects = 150
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range objects {
			w, err := l.Create(background, fmt.Sprintf("dir/%d", i))
			if err != nil {
				t.Errorf("create: got %v, want nil", err)
				return
			}
			if err := w.Commit(); err != nil {
				t.Errorf("commit: got %v, want nil", err)
			}
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		entries, err := fs.ReadDir(l.root.FS(), "dir")
		if err != nil {
			continue
		}
		for _, e := range entries {
			if name := "dir/" + e.Name(); len(e.Name()) > len(tempPrefix) {
				l.RemoveLeftover(t.Context(), name) // whatever it says, the writer must go on
			}
		}
	}
	if infos, err := l.List(t.Context(), ""); err != nil || len(infos) != objects {
		t.Errorf("list: got %d objects, %v, want %d", len(infos), err, objects)
	}
}
