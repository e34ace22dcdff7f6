package sinks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"golang.org/x/sys/unix"
)

// failAt makes the n-th step fail.
func failAt(l *Local, n int, err error) {
	l.step = func(string) error {
		if n--; n == -1 {
			return err
		}
		return nil
	}
}

func TestCreateFailsAtEachStep(t *testing.T) {
	for n, step := range createSteps {
		t.Run(step, func(t *testing.T) {
			l := newLocal(t)
			failAt(l, n, syscall.EDQUOT)
			if err := crashCreate(l); !errors.Is(err, syscall.EDQUOT) {
				t.Errorf("got %v, want EDQUOT", err)
			}
			if step == "write" {
				return // crashCreate does not abort; the next test does
			}
			checkEmpty(t, l)
			if err := crashCreate(l); err != nil {
				t.Errorf("again: got %v, want nil", err)
			}
		})
	}
}

func TestFirstErrorSticks(t *testing.T) {
	l := newLocal(t)
	w, err := l.Create(t.Context(), "a/object")
	if err != nil {
		t.Fatal(err)
	}
	failAt(l, 1, syscall.ENOSPC)
	if _, err := io.WriteString(w, "well"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := io.WriteString(w, "full"); n != 0 || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("write: got %d, %v, want 0, ENOSPC", n, err)
		}
	}
	for range 2 {
		if err := w.Commit(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("commit: got %v, want ENOSPC", err)
		}
	}
	if err := w.Abort(); err != nil {
		t.Errorf("abort: got %v, want nil", err)
	}
	checkEmpty(t, l)
}

func TestReplaceFailsAtEachStep(t *testing.T) {
	for n, step := range replaceSteps {
		t.Run(step, func(t *testing.T) {
			l := newLocal(t)
			put(t, l, "a/record", "old")
			failAt(l, n, syscall.EIO)
			if err := l.Replace(t.Context(), "a/record", []byte("new")); !errors.Is(err, syscall.EIO) {
				t.Errorf("got %v, want EIO", err)
			}
			want := "old"
			if n > slices.Index(replaceSteps, "rename") {
				want = "new" // visible but not known to be durable, and told so
			}
			if got := readAll(t, l, "a/record"); got != want {
				t.Errorf("record: got %q, want %q", got, want)
			}
			if got := tree(t, l); !slices.Equal(got, []string{"a", "a/record"}) {
				t.Errorf("left: got %q, want the record only", got)
			}
		})
	}
}

// What the system calls say is looked at, each of them.
func TestSystemCallsAreChecked(t *testing.T) {
	cases := []struct {
		name  string
		spoil func(t *testing.T, l *Local, w *localWriter)
		want  error
	}{
		{"close", func(t *testing.T, l *Local, w *localWriter) {
			l.step = func(step string) error {
				if step == "close" {
					w.temp.file.Close()
				}
				return nil
			}
		}, os.ErrClosed},
		{"sync", func(t *testing.T, l *Local, w *localWriter) {
			l.step = func(step string) error {
				if step == "sync" {
					w.temp.file.Close()
				}
				return nil
			}
		}, os.ErrClosed},
		{"length", func(t *testing.T, l *Local, w *localWriter) {
			if err := w.temp.file.Truncate(3); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"rename", func(t *testing.T, l *Local, w *localWriter) {
			if err := w.dir.root.Remove(w.temp.name); err != nil {
				t.Fatal(err)
			}
		}, fs.ErrNotExist},
		{"sync folder", func(t *testing.T, l *Local, w *localWriter) {
			l.step = func(step string) error {
				if step == "sync folder" {
					w.dir.file.Close()
				}
				return nil
			}
		}, os.ErrClosed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := newLocal(t)
			w, err := l.Create(t.Context(), "a/object")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(w, "data"); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, l, w.(*localWriter))
			err = w.Commit()
			if err == nil || (c.want != nil && !errors.Is(err, c.want)) {
				t.Errorf("commit: got %v, want an error, %v", err, c.want)
			}
			if err := w.Abort(); err != nil {
				t.Errorf("abort: got %v, want nil", err)
			}
			checkEmpty(t, l)
		})
	}
}

// mount mounts a tmpfs of its own for the test.
func mount(t *testing.T, options string, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		testenv.Missing(t, "mount", err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func TestFullDisk(t *testing.T) {
	l := openLocal(t, mount(t, "size=1m", 0))
	before, err := l.Free(t.Context())
	if err != nil || before <= 0 || before > 1<<20 {
		t.Fatalf("free: got %d, %v, want up to 1 MiB", before, err)
	}
	put(t, l, "srv/record", "old")
	for _, piece := range []int{1000, 4096, 100_000, 2 << 20} {
		w, err := l.Create(t.Context(), "srv/id/object")
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = w.Write(make([]byte, piece))
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), `write "srv/id/object" in `+l.Location()) {
			t.Errorf("write by %d: got %v, want ENOSPC with name and place", piece, err)
		}
		if err := l.Replace(t.Context(), "srv/record", make([]byte, 100_000)); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("replace: got %v, want ENOSPC", err)
		}
		checkLockOnFullDisk(t, l)
		if err := w.Commit(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("commit: got %v, want ENOSPC", err)
		}
		if got := tree(t, l); !slices.Equal(got, []string{"srv", "srv/record"}) || readAll(t, l, "srv/record") != "old" {
			t.Errorf("left: got %q, want the old record only", got)
		}
	}
	put(t, l, "srv/id/object", "there is room again")
}

// checkLockOnFullDisk takes a lock: who comes to make room needs one.
func checkLockOnFullDisk(t *testing.T, l *Local) {
	t.Helper()
	k, err := l.Lock(t.Context(), "srv/gc", bytes.Repeat([]byte("x"), 8000))
	if err != nil {
		t.Fatalf("lock: got %v, want nil", err)
	}
	var locked *LockedError
	if _, err := l.Lock(t.Context(), "srv/gc", nil); !errors.As(err, &locked) {
		t.Errorf("lock again: got %v, want a LockedError", err)
	}
	if err := k.Unlock(); err != nil {
		t.Errorf("unlock: got %v, want nil", err)
	}
}

func TestReadOnly(t *testing.T) {
	dir := mount(t, "size=1m", 0)
	l := openLocal(t, dir)
	put(t, l, "srv/object", "data")
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		testenv.Missing(t, "mount", err.Error())
	}
	ctx := t.Context()
	_, createErr := l.Create(ctx, "srv/new")
	_, createErr2 := l.Create(ctx, "new/new")
	_, lockErr := l.Lock(ctx, "srv/run", nil)
	for doing, err := range map[string]error{
		"create": createErr, "create with folder": createErr2, "lock": lockErr, "remove": l.Remove(ctx, "srv/object"),
		"replace": l.Replace(ctx, "srv/object", nil),
	} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: got %v, want EROFS", doing, err)
		}
	}
	if infos, err := l.List(ctx, ""); err != nil || len(infos) != 1 || readAll(t, l, "srv/object") != "data" {
		t.Errorf("list: got %v, %v, want the object", infos, err)
	}
	if left, err := l.Leftovers(ctx, ""); err != nil || len(left) != 0 {
		t.Errorf("leftovers: got %v, %v, want none, nil", left, err)
	}
}

// The directory itself vanishes: errors, and no endless tries.
func TestDirectoryRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	l := openLocal(t, dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Create(t.Context(), "object"); err == nil {
		t.Error("create: got nil, want an error")
	}
	if _, err := l.Create(t.Context(), "a/object"); err == nil {
		t.Error("create with folder: got nil, want an error")
	}
	if _, err := l.Lock(t.Context(), "lock", nil); err == nil {
		t.Error("lock: got nil, want an error")
	}
	if infos, err := l.List(t.Context(), ""); err != nil || len(infos) != 0 {
		t.Errorf("list: got %v, %v, want nothing", infos, err)
	}
}

// After Close nothing new can be had, but what is open goes on.
func TestClosedLocal(t *testing.T) {
	l, err := NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	_, createErr := l.Create(ctx, "x")
	_, openErr := l.Open(ctx, "x")
	_, listErr := l.List(ctx, "")
	_, lockErr := l.Lock(ctx, "x", nil)
	_, freeErr := l.Free(ctx)
	for i, err := range []error{createErr, openErr, listErr, lockErr, freeErr, l.Remove(ctx, "x"), l.Replace(ctx, "x", nil)} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("call %d: got %v, want os.ErrClosed", i, err)
		}
	}
}

// What the cache holds of a written object stays bounded, and what sync_file_range says is not lost.
func TestWriteBack(t *testing.T) {
	l := newLocal(t)
	w, err := l.Create(t.Context(), "big")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	piece := make([]byte, 3<<20)
	const pieces = 40
	for range pieces {
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	b := w.(*localWriter).back
	if b.size != pieces*int64(len(piece)) || b.size-b.started >= backWindow || b.started-b.ended > backAhead {
		t.Errorf("got %+v, want all but the last window started, and at most %d bytes under way", b, backAhead)
	}
	r, wpipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := new(writeBack).wrote(wpipe, backWindow); err != nil {
		t.Errorf("where it is not supported: got %v, want nil", err)
	}
	wpipe.Close()
	if err := new(writeBack).wrote(wpipe, backWindow); err == nil {
		t.Error("on a closed file: got nil, want an error")
	}
}
