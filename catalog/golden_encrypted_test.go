package catalog

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/internal/testenv"
)

// updateEncrypted makes the encrypted golden files anew. No two runs make the same: age is random.
var updateEncrypted = flag.Bool("update-encrypted", false, "make new encrypted golden files")

// goldenEncrypted is a repository of format 1 with two encrypted backups, and the identities that open them: test keys,
// of no other use.
var goldenEncrypted = filepath.Join("testdata", "format1", "encrypted")

// goldenIdentity returns one of the identities, and whom it makes somebody.
func goldenIdentity(t testing.TB, name string) (*encrypt.Identities, *encrypt.Recipients) {
	t.Helper()
	f, err := os.Open(filepath.Join(goldenEncrypted, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ids, err := encrypt.ReadIdentities(f, encrypt.IdentityOptions{})
	if err != nil {
		t.Fatal(err)
	}
	to, err := encrypt.ParseRecipients(ids.Recipients()...)
	if err != nil {
		t.Fatal(err)
	}
	return ids, to
}

// updateEncryptedGolden makes identities and backups.
func updateEncryptedGolden(t *testing.T) {
	if err := os.RemoveAll(goldenEncrypted); err != nil {
		t.Fatal(err)
	}
	r := repositories(t, local(t, filepath.Join(goldenEncrypted, "repository")))[0]
	for name, postQuantum := range map[string]bool{"former.txt": false, "operator.txt": false, "postquantum.txt": true} {
		secret, public, err := encrypt.Generate(postQuantum)
		if err != nil {
			t.Fatal(err)
		}
		text := "# A test key: it opens the golden files of format 1 and nothing else.\n# public key: " + public + "\n" + secret + "\n"
		if err := os.WriteFile(filepath.Join(goldenEncrypted, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, j := range goldenJobs(t) {
		j = j.sealed(t)
		j.ids, j.to = goldenIdentity(t, "former.txt")
		if i == 1 {
			j.ids, j.to = goldenIdentity(t, "postquantum.txt")
		}
		var err error
		if j.key, err = encrypt.NewKey(i == 1); err != nil {
			t.Fatal(err)
		}
		b := j.mustRun(t, "db1", r)
		if i == 0 {
			_, to := goldenIdentity(t, "operator.txt")
			if err := b.Rekey(t.Context(), to); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestEncryptedGoldenRepositoryIsRead: every later version must read what format 1 has stored.
func TestEncryptedGoldenRepositoryIsRead(t *testing.T) {
	if *updateEncrypted {
		updateEncryptedGolden(t)
	}
	r := repositories(t, local(t, filepath.Join(goldenEncrypted, "repository")))[0]
	list, err := r.List(t.Context(), "")
	if err != nil || len(list) != 2 {
		t.Fatalf("got %d backups (%v), want 2", len(list), err)
	}
	former, toFormer := goldenIdentity(t, "former.txt")
	stream := goldenStream(t)
	for i, want := range []struct {
		identity    string
		state       State
		volumes     int
		postQuantum bool
		rekeyed     bool
	}{{"operator.txt", Complete, 2, false, true}, {"postquantum.txt", Warning, 3, true, false}} {
		b := list[i]
		ids, to := goldenIdentity(t, want.identity)
		if b.State != want.state || b.Err != nil || !b.Locked() || len(b.Manifest.Volumes) != want.volumes {
			t.Errorf("%s: got state %s (%v), locked %v, %d volumes; want %+v", b.ID, b.State, b.Err, b.Locked(), len(b.Manifest.Volumes), want)
		}
		if got := b.Recipients(); !slices.Equal(got, to.Strings()) {
			t.Errorf("%s: got recipients %q, want %q", b.ID, got, to.Strings())
		}
		if rekeyed := b.Keys()[0] != *b.Manifest.Key; rekeyed != want.rekeyed {
			t.Errorf("%s: rekeyed is %v", b.ID, rekeyed)
		}
		var keyErr *KeyError
		if err := b.Unlock(t.Context(), former); !errors.As(err, &keyErr) {
			t.Errorf("%s: the former identity: got error %v", b.ID, err)
		}
		if err := b.Unlock(t.Context(), ids); err != nil {
			t.Fatalf("%s: %v", b.ID, err)
		}
		if err := prove(b, stream); err != nil || b.PostQuantum() != want.postQuantum {
			t.Errorf("%s: post-quantum %v: %v", b.ID, b.PostQuantum(), err)
		}
		ix, err := b.Index(t.Context())
		if err != nil || len(ix.Tree()) != 7 {
			t.Errorf("%s: its index: %v", b.ID, err)
		}
	}
	if got := list[0].Manifest.Recipients; !slices.Equal(got, toFormer.Strings()) {
		t.Errorf("got recipients %q in the manifest, want %q", got, toFormer.Strings())
	}
	if changed := list[0].change.Changed; changed.IsZero() || changed.After(time.Now()) || changed.Location() != time.UTC {
		t.Errorf("changed at %v", changed)
	}
}

// TestGoldenCodes checks the codes as docs/FORMAT.md defines them, with nothing of ours but the identity's text.
func TestGoldenCodes(t *testing.T) {
	age := testenv.Need(t, "age")
	folder := filepath.Join(goldenEncrypted, "repository", "db1", "20261130T180102Z-full")
	identity := ""
	for line := range strings.SplitSeq(shell(t, folder, age+" -d -i ../../../operator.txt key.age"), "\n") {
		if strings.HasPrefix(line, "AGE-SECRET-KEY-1") {
			identity = line
		}
	}
	for name, purpose := range map[string]string{ManifestObject: "mbwrap manifest", RekeyObject: "mbwrap key"} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		key, err := hkdf.Key(sha256.New, []byte(identity), nil, purpose, 32)
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, key)
		mac.Write(data[:len(data)-83-77])
		want := ",\n  \"mac\": \"" + hex.EncodeToString(mac.Sum(nil)) + "\""
		if got := data[len(data)-83-77 : len(data)-83]; string(got) != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestEncryptedGoldenWithStockTools restores by hand what format 1 has stored.
func TestEncryptedGoldenWithStockTools(t *testing.T) {
	sha256sum, age := testenv.Need(t, "sha256sum"), testenv.Need(t, "age")
	folder := filepath.Join(goldenEncrypted, "repository", "db1", "20261130T180102Z-full")
	shell(t, folder, sha256sum+" -c --strict SHA256SUMS")
	key := filepath.Join(t.TempDir(), "k")
	shell(t, folder, age+" -d -i ../../../operator.txt key.age > "+key)
	got := shell(t, folder, "for v in data.*; do "+age+" -d -i "+key+" \"$v\"; done")
	if want := string(goldenStream(t)); got != want {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
}

// TestEncryptedStockTools restores the stream with nothing of ours, before and after a change of the key.
func TestEncryptedStockTools(t *testing.T) {
	sha256sum, age, zstd := testenv.Need(t, "sha256sum"), testenv.Need(t, "age"), testenv.Need(t, "zstd")
	dir, mine := t.TempDir(), filepath.Join(t.TempDir(), "mine")
	secret, public, err := encrypt.Generate(false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mine, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	to, err := encrypt.ParseRecipients(public)
	if err != nil {
		t.Fatal(err)
	}
	ids, other := person(t, false)
	j := job{stream: longStream(t), codec: "zstd", volumes: 200}.sealed(t)
	j.to = to
	if j.ids, err = encrypt.ReadIdentities(strings.NewReader(secret), encrypt.IdentityOptions{}); err != nil {
		t.Fatal(err)
	}
	b := j.mustRun(t, "db1", repositories(t, local(t, dir))...)
	folder := filepath.Join(dir, "db1", b.ID)
	byHand := func() {
		t.Helper()
		out := shell(t, folder, sha256sum+" -c --strict SHA256SUMS")
		if got, want := strings.Count(out, ": OK\n"), len(b.Manifest.Volumes)+3; got != want || !strings.Contains(out, "key.age: OK") {
			t.Errorf("sha256sum says %q, want %d good objects", out, want)
		}
		open := "k=$(mktemp) && " + age + " -d -i " + mine + " key.age > $k && "
		if got := shell(t, folder, open+"for v in data.*; do "+age+" -d -i $k \"$v\"; done | "+zstd+" -dc"); got != string(j.stream) {
			t.Errorf("the volumes decode to %d bytes, want %d", len(got), len(j.stream))
		}
		if got := shell(t, folder, open+age+" -d -i $k backup.log.zst.age | "+zstd+" -dc"); !strings.Contains(got, "completed OK!") {
			t.Errorf("the log is %q", got)
		}
		if got := shell(t, folder, open+age+" -d -i $k index.zst.age | "+zstd+" -dc"); !strings.HasPrefix(got, indexMagic) {
			t.Errorf("the index begins with %q", got[:min(20, len(got))])
		}
	}
	byHand()
	for _, to := range []*encrypt.Recipients{other, to} { // away, and back again
		if err := b.Rekey(t.Context(), to); err != nil {
			t.Fatal(err)
		}
	}
	byHand()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			t.Errorf("a change of the key leaves %s", entry.Name())
		}
	}
	again, err := b.Repository.Find(t.Context(), "db1", b.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Unlock(t.Context(), ids); err == nil {
		t.Error("who had it in between still opens it")
	}
	if err := j.prove(again); err != nil {
		t.Errorf("after two changes: %v", err)
	}
}

// TestRekeyedAwayFromStockAge: stock age opens what it was given for, and for nobody else.
func TestRekeyedAwayFromStockAge(t *testing.T) {
	age := testenv.Need(t, "age")
	folder := filepath.Join(goldenEncrypted, "repository", "db1", "20261130T180102Z-full")
	out := shell(t, folder, age+" -d -i ../../../former.txt key.age 2>&1 || echo refused")
	if !strings.HasSuffix(out, "refused\n") || bytes.Contains([]byte(out), []byte("SECRET")) {
		t.Errorf("the former identity: got %q", out)
	}
}
