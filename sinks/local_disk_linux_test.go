package sinks

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"golang.org/x/sys/unix"
)

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

// overcommitted mounts an ext4 of 128 MiB on a file that can't grow beyond a few: like a thin volume, it takes what is
// written and fails when it comes to the disk.
func overcommitted(t *testing.T) string {
	t.Helper()
	image := filepath.Join(mount(t, "size=6m", 0), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 128<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(testenv.Need(t, "mkfs.ext4"), "-q", "-O", "^has_journal", image).CombinedOutput(); err != nil {
		testenv.Missing(t, "mkfs.ext4", string(out))
	}
	dir := t.TempDir()
	if out, err := exec.Command(testenv.Need(t, "mount"), "-o", "loop", image, dir).CombinedOutput(); err != nil {
		testenv.Missing(t, "mount", string(out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command(testenv.Need(t, "umount"), dir).CombinedOutput(); err != nil {
			t.Errorf("unmount: %s", out)
		}
	})
	return dir
}

// The disk fails after Write took the bytes. Small objects meet it at fsync, large ones in the early write-back, whose
// error the kernel does not repeat at fsync.
func TestDiskFailsAfterWrite(t *testing.T) {
	for name, size := range map[string]int{"at fsync": 12 << 20, "at write-back": 100 << 20} {
		t.Run(name, func(t *testing.T) {
			l := openLocal(t, overcommitted(t))
			w, err := l.Create(t.Context(), "srv/object")
			if err != nil {
				t.Fatal(err)
			}
			buf := bytes.Repeat([]byte("data"), 1<<18)
			for written := 0; written < size && err == nil; written += len(buf) {
				_, err = w.Write(buf)
			}
			if (err != nil) != (name == "at write-back") {
				t.Errorf("write: got %v, want an error: %v", err, name == "at write-back")
			}
			if err := w.Commit(); !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EIO) {
				t.Errorf("commit: got %v, want ENOSPC or EIO", err)
			}
			if got := tree(t, l); !slices.Equal(got, []string{"lost+found"}) {
				t.Errorf("left: got %q, want nothing of ours", got)
			}
			if err := l.Close(); err != nil { // else the file system is busy
				t.Error(err)
			}
		})
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
