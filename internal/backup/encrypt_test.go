package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/sinks/faulty"
	"github.com/mbwrap/mbwrap/xbstream"
)

// readBack returns the raw stream of a backup that ids open.
func readBack(t *testing.T, b *catalog.Backup, ids *encrypt.Identities) string {
	t.Helper()
	if err := b.Unlock(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	var stored []io.Reader
	for n := range b.Manifest.Volumes {
		volume, err := b.OpenVolume(t.Context(), n+1)
		if err != nil {
			t.Fatal(err)
		}
		defer volume.Close()
		stored = append(stored, io.NewSectionReader(volume, 0, volume.Size()))
	}
	return plain(t, io.MultiReader(stored...))
}

// TestEncrypted: what comes back with the right identity, from every repository, is the source byte for byte, and nothing
// comes back with another.
func TestEncrypted(t *testing.T) {
	t.Parallel()
	data := small(t)
	tests := map[string]func(*testing.T) (*encrypt.Recipients, *encrypt.Identities){
		"age key":          func(t *testing.T) (*encrypt.Recipients, *encrypt.Identities) { return operator(t) },
		"post-quantum key": func(t *testing.T) (*encrypt.Recipients, *encrypt.Identities) { return operatorOf(t, true) },
		"passphrase":       func(t *testing.T) (*encrypt.Recipients, *encrypt.Identities) { return passphrase(t, "open sesame") },
	}
	for name, keys := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to, ids := keys(t)
			stores := []*memory{newMemory(), newMemory()}
			both := []*catalog.Repository{repository(t, stores[0]), repository(t, stores[1])}
			o := options(t, play(data))
			o.VolumeSize, o.Recipients = 200, to
			result, err := Run(t.Context(), target(both...), o)
			if err != nil {
				t.Fatal(err)
			}
			if result.Key == nil || result.Key.PostQuantum() != to.PostQuantum() {
				t.Errorf("got key %v, want one of the recipients' kind", result.Key)
			}
			for i, r := range both {
				checkEncrypted(t, stores[i], r, to)
				b, err := r.Find(t.Context(), "db1", catalog.Latest)
				if err != nil {
					t.Fatal(err)
				}
				_, stranger := operator(t)
				var locked *catalog.KeyError
				if err := b.Unlock(t.Context(), stranger); !errors.As(err, &locked) {
					t.Errorf("with another key: got %v, want a KeyError", err)
				}
				if got := readBack(t, b, ids); got != string(data) {
					t.Errorf("got %d bytes back, want the %d of the source", len(got), len(data))
				}
			}
		})
	}
}

func passphrase(t *testing.T, text string) (*encrypt.Recipients, *encrypt.Identities) {
	t.Helper()
	to, err := encrypt.Passphrase(text)
	if err == nil {
		to, err = to.WithWorkFactor(10)
	}
	if err != nil {
		t.Fatal(err)
	}
	ids, err := encrypt.PassphraseIdentity(text)
	if err != nil {
		t.Fatal(err)
	}
	return to, ids
}

// checkEncrypted wants a backup of which only manifest and sums are in the clear, and which says so.
func checkEncrypted(t *testing.T, store *memory, r *catalog.Repository, to *encrypt.Recipients) {
	t.Helper()
	b, err := r.Find(t.Context(), "db1", catalog.Latest)
	if err != nil {
		t.Fatal(err)
	}
	if m := b.Manifest; b.State != catalog.Complete || !m.Encrypted || !slices.Equal(m.Recipients, to.Strings()) || len(m.Volumes) < 2 {
		t.Errorf("got state %s, encrypted %v to %q, %d volumes", b.State, m.Encrypted, m.Recipients, len(m.Volumes))
	}
	open := []string{catalog.RepositoryObject, catalog.ManifestObject, catalog.SumsObject}
	for name, data := range store.objects {
		if !slices.Contains(open, filepath.Base(name)) && (!encrypt.Sealed(data) || !strings.HasSuffix(name, ".age")) {
			t.Errorf("%s is in the clear", name)
		}
		if bytes.Contains(data, []byte("the tool says")) || bytes.Contains(data, []byte("shop")) {
			t.Errorf("%s tells of the source", name)
		}
	}
}

// TestCancelledAtEveryByte ends an encrypted run after so many bytes of the source. Either there is an error and nothing
// is left, or a backup and no error.
func TestCancelledAtEveryByte(t *testing.T) {
	t.Parallel()
	data := small(t)
	to, _ := operator(t)
	for n := 0; n <= len(data); n += 60 * stride {
		ctx, cancel := context.WithCancel(t.Context())
		store := newMemory()
		r := repository(t, store)
		s := play(nil)
		s.data = io.MultiReader(bytes.NewReader(data[:n]), atRead(cancel), bytes.NewReader(data[n:]))
		o := options(t, s)
		o.VolumeSize, o.Recipients = 100, to
		when := fmt.Sprint("cancelled at byte ", n)
		soon(t, when, func() {
			_, err := Run(ctx, target(r), o)
			checkEither(t, when, listed(t, r), err)
			if err != nil {
				store.checkClean(t, when)
			}
		})
		cancel()
		if t.Failed() {
			return
		}
	}
}

// atRead is a reader of nothing that does something.
type atRead func()

func (f atRead) Read([]byte) (int, error) { f(); return 0, io.EOF }

// absent is a recipient of the plugin age-plugin-nobodyhasit.
const absent = "age1nobodyhasit1dehkymmy0ysxsctnyp6xs6tnypcxcat8d9hq3ullw9"

// TestRecipientsThatCannotBeUsed are found before the source starts and before anything is written.
func TestRecipientsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	to, err := encrypt.ParseRecipients(absent)
	if err != nil {
		t.Fatal(err)
	}
	started := func(s *script) Options {
		o := options(t, s)
		o.Recipients = to
		return o
	}
	store, s := newMemory(), play(small(t))
	if _, err := Run(t.Context(), target(repository(t, store)), started(s)); err == nil || s.started {
		t.Errorf("into a repository: got %v, source started: %v", err, s.started)
	}
	store.checkClean(t, "into a repository")
	var out bytes.Buffer
	if _, err := RunPlain(t.Context(), &out, started(s)); err == nil || s.started || out.Len() > 0 {
		t.Errorf("into a writer: got %v, source started: %v, %d bytes written", err, s.started, out.Len())
	}
	store = newMemory()
	if _, err := RunFile(t.Context(), store, "x.zst.age", started(s)); err == nil || s.started || len(store.names()) > 0 || store.writing > 0 {
		t.Errorf("into a file: got %v, source started: %v, left %q", err, s.started, store.names())
	}
}

// TestEncryptedPlain: a plain stream to recipients is an age file to them, whose size is told, and which age reads.
func TestEncryptedPlain(t *testing.T) {
	t.Parallel()
	to, ids := operator(t)
	// Some blocks of what does not shrink, so that the age file has several chunks.
	data := stream(t, 10, "shop/t2.ibd="+noise(300_000))
	var out bytes.Buffer
	o := options(t, play(data))
	o.Recipients = to
	result, err := RunPlain(t.Context(), &out, o)
	if err != nil {
		t.Fatal(err)
	}
	if m := result.Manifest; !m.Encrypted || !slices.Equal(m.Recipients, to.Strings()) || m.StoredBytes != int64(out.Len()) || result.Key != nil {
		t.Errorf("got %+v and key %v, want %d bytes encrypted to %q", m, result.Key, out.Len(), to.Strings())
	}
	opened, err := ids.Open(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got := plain(t, opened); got != string(data) {
		t.Errorf("got %d bytes, want the %d of the source", len(got), len(data))
	}
	store := newMemory()
	o = options(t, play(data))
	o.Recipients = to
	if _, err := RunFile(t.Context(), store, "x.zst.age", o); err != nil || !encrypt.Sealed(store.objects["x.zst.age"]) {
		t.Errorf("into a file: got %v, %d bytes", err, len(store.objects["x.zst.age"]))
	}
}

// noise returns letters that hardly shrink.
func noise(n int) string {
	all := make([]byte, n)
	x := uint32(1)
	for i := range all {
		x = x*1664525 + 1013904223
		all[i] = byte(x>>24)/2 + 1
	}
	return string(all)
}

// TestFailedPlainDoesNotLookWhole: neither age nor we take what a failed run has written for a whole file, wherever it
// failed.
func TestFailedPlainDoesNotLookWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret, public, err := encrypt.Generate(false)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	to, err := encrypt.ParseRecipients(public)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := encrypt.ReadIdentities(strings.NewReader(secret), encrypt.IdentityOptions{})
	if err != nil {
		t.Fatal(err)
	}
	whole := stream(t, 10, "shop/t2.ibd="+noise(300_000))
	boom := errors.New("boom")
	tests := map[string]struct {
		source *script
		want   error // nil: a whole stream
	}{
		"whole":                 {play(whole), nil},
		"fails after the end":   {ends(whole, boom), boom},
		"fails in between":      {ends(whole[:200_000], boom), boom},
		"fails soon":            {ends(whole[:100], boom), boom},
		"cut between two files": {play(whole[:bytes.Index(whole, []byte("xtrabackup_checkpoints"))-14]), xbstream.ErrMetadata},
		"no backup":             {play(stream(t, 10, "xtrabackup_checkpoints=nonsense", "shop/t2.ibd="+noise(300_000))), ErrPosition},
		"empty":                 {play(nil), xbstream.ErrEmpty},
	}
	for name, test := range tests {
		var out bytes.Buffer
		o := options(t, test.source)
		o.Recipients = to
		if _, err := RunPlain(t.Context(), &out, o); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
		opened, err := ids.Open(bytes.NewReader(out.Bytes()))
		if err == nil {
			_, err = io.Copy(io.Discard, opened)
		}
		if (err == nil) != (test.want == nil) {
			t.Errorf("%s: reading it back: got %v", name, err)
		}
		cmd := exec.CommandContext(t.Context(), testenv.Need(t, "age"), "-d", "-i", key, "-o", os.DevNull)
		cmd.Stdin = &out
		if text, err := cmd.CombinedOutput(); (err == nil) != (test.want == nil) {
			t.Errorf("%s: age: got %v: %s", name, err, text)
		}
	}
}

// TestEncryptedPlainDiskFull: a disk that is full at byte n, down to the last chunk of the age file.
func TestEncryptedPlainDiskFull(t *testing.T) {
	t.Parallel()
	to, _ := operator(t)
	run := func(room int) (int, error) {
		o := options(t, play(small(t)))
		o.Recipients = to
		w := &fullWriter{room: room}
		_, err := RunPlain(t.Context(), w, o)
		return room - w.room, err
	}
	total, err := run(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	step := stride
	for n := total - 1; n >= 0; n -= step {
		if n < total-100 { // the last chunk of the age file begins a little later
			step = 7 * stride
		}
		var sink *SinkError
		if _, err := run(n); !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &sink) {
			t.Fatalf("full at %d: got %v, want a SinkError", n, err)
		}
		store, table := newMemory(), faulty.New(faulty.Fault{Op: faulty.Write, After: int64(n), Err: syscall.ENOSPC})
		o := options(t, play(small(t)))
		o.Recipients = to
		_, err := RunFile(t.Context(), table.Wrap(store), "x.zst.age", o)
		if !errors.Is(err, syscall.ENOSPC) || len(store.names()) > 0 || store.writing > 0 {
			t.Fatalf("full at %d: got %v, left %v", n, err, store.names())
		}
	}
	// A writer that takes less than it was given and says nothing.
	o := options(t, play(small(t)))
	o.Recipients = to
	var sink *SinkError
	if _, err := RunPlain(t.Context(), shortWriter{}, o); !errors.Is(err, io.ErrShortWrite) || !errors.As(err, &sink) {
		t.Errorf("short writes: got %v, want a SinkError", err)
	}
}

type shortWriter struct{}

func (shortWriter) Write(p []byte) (int, error) { return len(p) / 2, nil }
