package catalog

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/mbwrap/mbwrap/encrypt"
)

// TestUnlockWith: who has made the backup reads it without an identity, and is told the same of what was changed.
func TestUnlockWith(t *testing.T) {
	e := newEncrypted(t)
	b := e.find(t)
	if err := b.UnlockWith(t.Context(), e.key); err != nil {
		t.Fatal(err)
	}
	if err := prove(b, e.stream); err != nil {
		t.Error(err)
	}
	if err := b.UnlockWith(t.Context(), e.key); err != nil {
		t.Errorf("a second time: %v", err)
	}
	other, err := encrypt.NewKey(false)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.find(t).UnlockWith(t.Context(), other); !errors.Is(err, ErrAltered) {
		t.Errorf("another key: got %v, want ErrAltered", err)
	}
	back := e.sink.keep()
	e.put(ManifestObject, reseal(t, e.object(ManifestObject), func(m *Manifest) { m.ToLSN = 1 }))
	if err := e.find(t).UnlockWith(t.Context(), e.key); !errors.Is(err, ErrAltered) {
		t.Errorf("altered manifest: got %v, want ErrAltered", err)
	}
	back()
	e.put(KeyObject, []byte("another"))
	if err := e.find(t).UnlockWith(t.Context(), e.key); !errors.Is(err, ErrAltered) {
		t.Errorf("altered key.age: got %v, want ErrAltered", err)
	}
	delete(e.sink.objects, e.folder+KeyObject)
	if err := e.find(t).UnlockWith(t.Context(), e.key); !errors.Is(err, ErrMissing) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without key.age: got %v, want ErrMissing", err)
	}
	if err := (&Backup{ID: "x"}).UnlockWith(t.Context(), e.key); !errors.Is(err, ErrManifest) {
		t.Errorf("without a manifest: got %v, want ErrManifest", err)
	}
	plain := job{stream: e.stream}.mustRun(t, "db2", repositories(t, newMemory())[0])
	if err := plain.UnlockWith(t.Context(), e.key); err != nil {
		t.Errorf("a plain backup: got %v, want nil", err)
	}
}
