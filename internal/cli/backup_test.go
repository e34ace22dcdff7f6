package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/internal/backup"
)

// streamFile returns a file with a small backup's stream, open for reading.
func streamFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "stream"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := writeStream(f, streamSpec{tables: 1, size: 10, to: 100}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestVerifyAfterBackupFindsDamage: the disk changed a byte between the commit and the verification that follows it. The
// backup is told as damaged and listed as bad; for programs the error is all there is on standard output.
func TestVerifyAfterBackupFindsDamage(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		dir := t.TempDir()
		w := newWorld()
		w.Stdin = streamFile(t)
		if code := Main(t.Context(), []string{"mbwrap", "backup", "--stdin", "--repo", dir}, w.Env); code != 0 {
			t.Fatalf("exit code %d: %s", code, w.err.String())
		}
		b, err := findBackup(t.Context(), w.Env, &common{Repos: []string{dir}}, catalog.Latest)
		if err != nil {
			t.Fatal(err)
		}
		volume := filepath.Join(dir, b.Server, b.ID, b.Manifest.Volumes[0].Name)
		data, err := os.ReadFile(volume)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(volume, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r := &backupRun{
			backupOptions: &backupOptions{common: common{JSON: asJSON}, Verify: "read"}, env: w.Env,
			target: backup.Target{Repositories: []*catalog.Repository{b.Repository}, Server: b.Server},
		}
		err = r.tell(t.Context(), &backup.Result{Manifest: b.Manifest, Elapsed: time.Second})
		if !errors.Is(err, errDamage) || !strings.Contains(err.Error(), b.ID) || as[*reportedError](err) {
			t.Errorf("got %v, want damage that is still to be told", err)
		}
		if out := w.out.String(); asJSON == strings.Contains(out, "damaged") {
			t.Errorf("JSON %v: standard output: got %q", asJSON, out)
		}
		if b, err = b.Repository.Find(t.Context(), b.Server, b.ID); err != nil || b.State != catalog.Bad {
			t.Errorf("listed: got %+v, %v, want bad", b, err)
		}
	}
}

// TestBackupJSON prints the manifest, one document.
func TestBackupJSON(t *testing.T) {
	w := newWorld()
	w.Stdin = streamFile(t)
	if code := Main(t.Context(), []string{"mbwrap", "backup", "--stdin", "--json", "--verify", "read", "--repo", t.TempDir()}, w.Env); code != 0 {
		t.Fatalf("exit code %d: %s", code, w.err.String())
	}
	var m catalog.Manifest
	if err := json.Unmarshal(w.out.Bytes(), &m); err != nil || m.Server != "db1" || m.ToLSN != 100 {
		t.Errorf("got %s, %v", w.out.String(), err)
	}
}

func TestOptionNames(t *testing.T) {
	got := strings.Join(optionNames([]string{"--databases=secret shop", "--parallel", "4", "-x"}), " ")
	if want := "--databases --parallel -x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
