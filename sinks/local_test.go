package sinks

import (
	"errors"
	"io/fs"
	"testing"
)

func TestLocalFirstSteps(t *testing.T) {
	l, err := NewLocal(t.TempDir() + "/a/b")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	w, err := l.Create(ctx, "srv/id/data")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if got, err := l.List(ctx, ""); err != nil || len(got) != 0 {
		t.Fatal(got, err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if got, err := l.List(ctx, "srv/i"); err != nil || len(got) != 1 || got[0].Size != 5 {
		t.Fatal(got, err)
	}
	o, err := l.Open(ctx, "srv/id/data")
	if err != nil || o.Size() != 5 {
		t.Fatal(err)
	}
	o.Close()
	if _, err := l.Create(ctx, "srv/id/data"); !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	k, err := l.Lock(ctx, "srv/run", []byte("me"))
	if err != nil {
		t.Fatal(err)
	}
	var locked *LockedError
	if _, err := l.Lock(ctx, "srv/run", nil); !errors.As(err, &locked) || string(locked.Owner) != "me" {
		t.Fatal(err)
	}
	if err := k.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := l.Remove(ctx, "srv/id/data"); err != nil {
		t.Fatal(err)
	}
	entries, err := fs.ReadDir(l.root.FS(), ".")
	if err != nil || len(entries) != 0 {
		t.Fatal(entries, err)
	}
}
