package sinks

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
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

// BenchmarkLocalWrite stores objects of 256 MiB that do not compress, written 4 MiB at a time, including the commit.
func BenchmarkLocalWrite(b *testing.B) {
	l, err := NewLocal(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	buf := make([]byte, 4<<20)
	rand.NewChaCha8([32]byte{}).Read(buf)
	const pieces = 64
	b.SetBytes(int64(pieces * len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		w, err := l.Create(b.Context(), "object")
		if err != nil {
			b.Fatal(err)
		}
		for range pieces {
			if _, err := w.Write(buf); err != nil {
				b.Fatal(err)
			}
		}
		if err := errors.Join(w.Commit(), l.Remove(b.Context(), "object")); err != nil {
			b.Fatal(err)
		}
	}
}
