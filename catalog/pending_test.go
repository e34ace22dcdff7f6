package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/sinks"
)

// recording notes in which order objects appear and go.
type recording struct {
	*memory
	events []string
}

func (r *recording) Create(ctx context.Context, name string) (sinks.Writer, error) {
	w, err := r.memory.Create(ctx, name)
	return &recordingWriter{w, r, name}, err
}

func (r *recording) Remove(ctx context.Context, name string) error {
	r.events = append(r.events, "remove "+name[strings.LastIndex(name, "/")+1:])
	return r.memory.Remove(ctx, name)
}

type recordingWriter struct {
	sinks.Writer
	sink *recording
	name string
}

func (w *recordingWriter) Commit() error {
	err := w.Writer.Commit()
	if err == nil {
		w.sink.events = append(w.sink.events, w.name[strings.LastIndex(w.name, "/")+1:])
	}
	return err
}

// TestOrderOfCommit: the manifest is last, and first to go.
func TestOrderOfCommit(t *testing.T) {
	sink := &recording{memory: newMemory()}
	r := repositories(t, sink)[0]
	sink.events = nil
	j := job{stream: longStream(t), volumes: 4096}
	if _, err := j.run(t.Context(), "db1", r); err != nil {
		t.Fatal(err)
	}
	want := []string{"data.0001.xbs", "data.0002.xbs", "data.0003.xbs", indexObject, logObject, SumsObject, ManifestObject}
	if !slices.Equal(sink.events, want) {
		t.Errorf("got %q, want %q", sink.events, want)
	}

	sink.events = nil
	j.started = began.Add(time.Minute)
	if _, err := j.sealed(t).run(t.Context(), "db1", r); err != nil {
		t.Fatal(err)
	}
	want = []string{"data.0001.xbs.age", "data.0002.xbs.age", "data.0003.xbs.age", KeyObject, "index.zst.age",
		"backup.log.zst.age", SumsObject, ManifestObject}
	if !slices.Equal(sink.events, want) {
		t.Errorf("got %q, want %q", sink.events, want)
	}

	other := newMemory()
	all := append([]*Repository{r}, repositories(t, other)...)
	sink.events = nil
	j.started = began.Add(time.Hour)
	p, err := Begin(t.Context(), all, "db1", BeginOptions{Type: Full, Started: j.started, Codec: lookup(t, "none")})
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.create(t.Context(), ManifestObject, func(Object) {}) // as if it had been written, and then something failed
	if err != nil {
		t.Fatal(err)
	}
	v, err := p.Volumes(t.Context()).Open(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(v.Close(), w.Close(), p.Abort(t.Context())); err != nil {
		t.Fatal(err)
	}
	want = []string{"data.0001.xbs", ManifestObject, "remove " + ManifestObject, "remove data.0001.xbs"}
	if !slices.Equal(sink.events, want) {
		t.Errorf("got %q, want %q", sink.events, want)
	}
}

// TestCommitFillsTheManifestIn: sizes, digests and names are those of the stored bytes.
func TestCommitFillsTheManifestIn(t *testing.T) {
	for _, name := range []string{"none", "zstd", "gzip", "lz4"} {
		r := repositories(t, newMemory())[0]
		stream := longStream(t)
		b := job{stream: stream, codec: name, volumes: 200}.mustRun(t, "db1", r)
		if err := prove(b, stream); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		m := b.Manifest
		if m.ID != beganID || m.Server != "db1" || m.Format != Format || len(m.Volumes) < 2 {
			t.Errorf("%s: got manifest %+v", name, m)
		}
		for i, v := range m.Volumes {
			if want := fmt.Sprintf("data.%04d.xbs%s", i+1, lookup(t, name).Suffix()); v.Name != want {
				t.Errorf("%s: got volume %q, want %q", name, v.Name, want)
			}
		}
	}
}

func TestBeginRefuses(t *testing.T) {
	r := repositories(t, newMemory())
	ok := BeginOptions{Type: Full, Started: began, Codec: lookup(t, "none")}
	for _, test := range []struct {
		name    string
		all     []*Repository
		server  string
		options BeginOptions
		want    error
	}{
		{"no repository", nil, "db1", ok, errNoRepository},
		{"bad server", r, "../db1", ok, ErrServerName},
		{"no type", r, "db1", BeginOptions{Started: began, Codec: ok.Codec}, nil},
		{"unknown type", r, "db1", BeginOptions{Type: "half", Started: began, Codec: ok.Codec}, nil},
		{"year that does not fit", r, "db1", BeginOptions{Type: Full, Started: began.AddDate(9000, 0, 0), Codec: ok.Codec}, nil},
	} {
		p, err := Begin(t.Context(), test.all, test.server, test.options)
		if err == nil || p != nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: got %v and error %v, want %v", test.name, p, err, test.want)
		}
	}
	key, err := encrypt.NewKey(false)
	if err != nil {
		t.Fatal(err)
	}
	_, to := person(t, false)
	for name, half := range map[string]BeginOptions{
		"a key without recipients": {Type: Full, Started: began, Codec: ok.Codec, Key: key},
		"recipients without a key": {Type: Full, Started: began, Codec: ok.Codec, Recipients: to},
	} {
		if p, err := Begin(t.Context(), r, "db1", half); p != nil || !errors.Is(err, errHalfEncrypted) {
			t.Errorf("%s: got %v and error %v, want %v", name, p, err, errHalfEncrypted)
		}
	}
	p, err := Begin(t.Context(), r, "db1", ok) // no lock was left
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Abort(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestIDCollision: the next free second is taken, whichever repository has the other one.
func TestIDCollision(t *testing.T) {
	all := repositories(t, newMemory(), newMemory())
	j := job{stream: mariadbStream(t)}
	j.mustRun(t, "db1", all[0])
	all[1].sink.(*memory).put("db1/20261130T180103Z-full/data.0001.xbs", nil) // incomplete: its name is taken all the same
	p, err := j.run(t.Context(), "db1", all...)
	if err != nil || p.ID != "20261130T180104Z-full" {
		t.Errorf("got ID %q (%v), want 20261130T180104Z-full", p.ID, err)
	}
	j.typ = Incremental
	if p, err = j.run(t.Context(), "db1", all...); err != nil || p.ID != "20261130T180102Z-incr" {
		t.Errorf("got ID %q (%v), want 20261130T180102Z-incr", p.ID, err)
	}
	if p, err = j.run(t.Context(), "db2", all...); err != nil || p.ID != "20261130T180102Z-incr" {
		t.Errorf("of another server: got ID %q (%v), want 20261130T180102Z-incr", p.ID, err)
	}
}

// TestLock: of two runs one works, and the other is told who.
func TestLock(t *testing.T) {
	for name, make := range map[string]func() sinks.Sink{
		"memory": func() sinks.Sink { return newMemory() },
		"local":  func() sinks.Sink { return local(t, t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			all := repositories(t, make(), make())
			o := BeginOptions{Type: Full, Started: began, Codec: lookup(t, "none"), Owner: []byte("pid 42")}
			first, err := Begin(t.Context(), all[1:], "db1", o)
			if err != nil {
				t.Fatal(err)
			}
			var held *sinks.LockedError
			_, err = Begin(t.Context(), all, "db1", o)
			if !errors.As(err, &held) || string(held.Owner) != "pid 42" {
				t.Errorf("got error %v, want one that names the holder", err)
			}
			var at *RepositoryError
			if !errors.As(err, &at) || at.Location != "B" {
				t.Errorf("got error %v, want one that names repository B", err)
			}
			other, err := Begin(t.Context(), all, "db2", o)
			if err != nil {
				t.Fatalf("another server: %v", err)
			}
			if err := errors.Join(first.Abort(t.Context()), other.Abort(t.Context())); err != nil {
				t.Fatal(err)
			}
			again, err := Begin(t.Context(), all, "db1", o) // the refused run left no lock behind in A
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Abort(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// local opens a directory as a sink.
func local(t testing.TB, dir string) *sinks.Local {
	t.Helper()
	l, err := sinks.NewLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestSinkWithoutLocks still works.
func TestSinkWithoutLocks(t *testing.T) {
	r := repositories(t, plain{newMemory()})[0]
	stream := mariadbStream(t)
	if err := prove(job{stream: stream}.mustRun(t, "db1", r), stream); err != nil {
		t.Error(err)
	}
}

// dieVariable tells the test's own program, run again, where to die.
const dieVariable = "CATALOG_TEST_DIE"

// TestDeadRun kills a run that holds the lock and has written volumes. Nothing half-made is listed, and the next run
// works.
func TestDeadRun(t *testing.T) {
	if dir := os.Getenv(dieVariable); dir != "" {
		job{stream: longStream(t), volumes: 4096, between: func(*Pending) {
			syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
			select {}
		}}.mustRun(t, "db1", repositories(t, local(t, dir))...)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDeadRun$")
	cmd.Env = append(os.Environ(), dieVariable+"="+dir)
	var exit *exec.ExitError
	if out, err := cmd.CombinedOutput(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the run ended with %v: %s", err, out)
	}
	r := repositories(t, local(t, dir))[0]
	list, err := r.List(t.Context(), "")
	if err != nil || len(list) != 1 || list[0].State != Incomplete || list[0].Usable() {
		t.Fatalf("got %d backups (%v), want an incomplete one", len(list), err)
	}
	if _, err := r.Find(t.Context(), "db1", Latest); !errors.Is(err, ErrNoBackup) {
		t.Errorf("got error %v, want %v", err, ErrNoBackup)
	}
	stream := longStream(t)
	b := job{stream: stream}.mustRun(t, "db1", r)
	if b.ID != "20261130T180103Z-full" {
		t.Errorf("got ID %q, want the second after the dead run's", b.ID)
	}
	if err := prove(b, stream); err != nil {
		t.Error(err)
	}
}

// TestAbort leaves nothing, twice, and after Commit does nothing.
func TestAbort(t *testing.T) {
	dir := t.TempDir()
	r := repositories(t, local(t, dir))[0]
	ctx, cancel := context.WithCancelCause(t.Context())
	p, err := job{stream: longStream(t), volumes: 4096, between: func(*Pending) { cancel(errBoom) }}.run(ctx, "db1", r)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got error %v, want %v", err, context.Canceled)
	}
	if err := p.Abort(ctx); err != nil {
		t.Errorf("second Abort: %v", err)
	}
	var left []string
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, strings.TrimPrefix(name, dir))
		}
		return err
	})
	if want := []string{"/mbwrap.json"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left: %q (%v), want %q", left, err, want)
	}
	stream := longStream(t)
	if p, err = (job{stream: stream}).run(t.Context(), "db1", r); err != nil {
		t.Fatal(err)
	}
	if err := p.Abort(t.Context()); err != nil {
		t.Errorf("Abort after Commit: %v", err)
	}
	b, err := r.Find(t.Context(), "db1", Latest)
	if err != nil {
		t.Fatal(err)
	}
	if err := prove(b, stream); err != nil {
		t.Error(err)
	}
}

// TestVolumeEndsOnce: Close is harmless twice, and Abort after it.
func TestVolumeEndsOnce(t *testing.T) {
	r := repositories(t, newMemory())
	p, err := Begin(t.Context(), r, "db1", BeginOptions{Type: Full, Started: began, Codec: lookup(t, "none")})
	if err != nil {
		t.Fatal(err)
	}
	v, err := p.Volumes(t.Context()).Open(1)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := v.Write([]byte("abc")); n != 3 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if err := errors.Join(v.Close(), v.Close(), v.Abort()); err != nil {
		t.Error(err)
	}
	want := []Object{{"data.0001.xbs", 3, sumOf([]byte("abc"))}}
	if !slices.Equal(p.volumes, want) {
		t.Errorf("got volumes %+v, want %+v", p.volumes, want)
	}
	if err := p.Abort(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTooManyVolumes: their names would no longer sort.
func TestTooManyVolumes(t *testing.T) {
	p, err := Begin(t.Context(), repositories(t, newMemory()), "db1", BeginOptions{Type: Full, Started: began, Codec: lookup(t, "none")})
	if err != nil {
		t.Fatal(err)
	}
	for n, ok := range map[int]bool{maxVolumes: true, maxVolumes + 1: false} {
		v, err := p.Volumes(t.Context()).Open(n)
		if (err == nil) != ok {
			t.Errorf("volume %d: got error %v", n, err)
		}
		if err == nil {
			v.Abort()
		}
	}
	if err := p.Abort(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCommitWithoutVolumes: an empty stream is no backup.
func TestCommitWithoutVolumes(t *testing.T) {
	sink := newMemory()
	r := repositories(t, sink)
	p, err := Begin(t.Context(), r, "db1", BeginOptions{Type: Full, Started: began, Codec: lookup(t, "none")})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Commit(t.Context(), &Manifest{Type: Full, Started: began, Finished: began}, new(IndexBuilder).Encode(), nil); err == nil {
		t.Error("got no error")
	}
	if got := sink.names("db1"); len(got) > 0 || len(sink.locks) > 0 {
		t.Errorf("left: %q and locks %v", got, sink.locks)
	}
}

// TestStockTools restores the stream, and checks the sums, with nothing of ours.
func TestStockTools(t *testing.T) {
	for _, name := range []string{"zstd", "gzip", "lz4"} {
		t.Run(name, func(t *testing.T) {
			sha256sum, decoder := testenv.Need(t, "sha256sum"), testenv.Need(t, name)
			dir := t.TempDir()
			stream := longStream(t)
			b := job{stream: stream, codec: name, volumes: 200}.mustRun(t, "db1", repositories(t, local(t, dir))...)
			folder := filepath.Join(dir, "db1", b.ID)
			out := shell(t, folder, sha256sum+" -c --strict SHA256SUMS")
			if got, want := strings.Count(out, ": OK\n"), len(b.Manifest.Volumes)+2; got != want {
				t.Errorf("sha256sum says %q, want %d good objects", out, want)
			}
			if got := shell(t, folder, "cat data.* | "+decoder+" -dc"); got != string(stream) {
				t.Errorf("the volumes decode to %d bytes, want %d", len(got), len(stream))
			}
			zstd := testenv.Need(t, "zstd")
			if got := shell(t, folder, zstd+" -dc backup.log.zst"); !strings.Contains(got, "completed OK!") {
				t.Errorf("the log is %q", got)
			}
			if got := shell(t, folder, zstd+" -dc index.zst"); !strings.HasPrefix(got, indexMagic) {
				t.Errorf("the index begins with %q", got[:20])
			}
			// The seal, as docs/FORMAT.md tells how to check it.
			seal := shell(t, folder, "head -c -83 manifest.json | "+sha256sum+" | cut -c -64; tail -c 68 manifest.json | head -c 64")
			if lines := strings.Fields(seal); len(lines) != 2 || lines[0] != lines[1] {
				t.Errorf("the seal of the manifest: got %q", lines)
			}
			if err := os.WriteFile(filepath.Join(folder, "data.0001.xbs"+b.Manifest.Volumes[0].Name[13:]), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), sha256sum, "-c", "SHA256SUMS")
			cmd.Dir = folder
			if cmd.Run() == nil {
				t.Error("sha256sum accepts a damaged volume")
			}
		})
	}
}

// shell returns what a command prints in a folder.
func shell(t *testing.T, dir, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-ec", command)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, stderr.Bytes())
	}
	return string(out)
}

// TestWaitersDoNotSeal: a run that finds the lock held has not gone to the expense of a seal.
func TestWaitersDoNotSeal(t *testing.T) {
	r := repositories(t, newMemory())[0]
	first, err := Begin(t.Context(), []*Repository{r}, "db1", BeginOptions{Type: Full, Started: time.Now(), Codec: lookup(t, "zstd")})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Abort(t.Context())
	key, err := encrypt.NewKey(false)
	if err != nil {
		t.Fatal(err)
	}
	to, err := encrypt.Passphrase("costs a second and 256 MiB")
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = Begin(t.Context(), []*Repository{r}, "db1", BeginOptions{
		Type: Full, Started: time.Now(), Codec: lookup(t, "zstd"), Key: key, Recipients: to,
	})
	runtime.ReadMemStats(&after)
	if _, held := errors.AsType[*sinks.LockedError](err); !held {
		t.Fatalf("got %v, want LockedError", err)
	}
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 64<<20 {
		t.Errorf("got %d bytes allocated, want no scrypt", spent)
	}
}
