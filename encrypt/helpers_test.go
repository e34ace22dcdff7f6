package encrypt

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// pair makes a recipient and the identity that opens what is sealed to it.
func pair(t testing.TB, postQuantum bool) (*Recipients, *Identities) {
	t.Helper()
	secret, public, err := Generate(postQuantum)
	if err != nil {
		t.Fatal(err)
	}
	return recipients(t, public), identities(t, secret)
}

func recipients(t testing.TB, lines ...string) *Recipients {
	t.Helper()
	r, err := ParseRecipients(lines...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func identities(t testing.TB, file string) *Identities {
	t.Helper()
	ids, err := ReadIdentities(strings.NewReader(file), IdentityOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// passphrases makes both halves of a passphrase with a work factor that costs nothing.
func passphrases(t testing.TB, passphrase string) (*Recipients, *Identities) {
	t.Helper()
	r, err := Passphrase(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = r.WithWorkFactor(2); err != nil {
		t.Fatal(err)
	}
	ids, err := PassphraseIdentity(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	return r, ids
}

func newKey(t testing.TB, postQuantum bool) *Key {
	t.Helper()
	k, err := NewKey(postQuantum)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sealer is a Recipients or a Key.
type sealer interface {
	Seal(io.Writer) (io.WriteCloser, error)
}

func sealAll(t testing.TB, s sealer, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := s.Seal(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// opener is an Identities or a Key.
type opener interface {
	Open(io.Reader) (io.Reader, error)
	OpenAt(io.ReaderAt, int64) (*Plain, error)
	OpenFrontAt(io.ReaderAt, int64) (*Plain, error)
}

func openAll(o opener, sealed []byte) ([]byte, error) {
	r, err := o.Open(bytes.NewReader(sealed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func openAllAt(o opener, sealed []byte) ([]byte, error) {
	p, err := o.OpenAt(bytes.NewReader(sealed), int64(len(sealed)))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(p, 0, p.Size()))
}

func openAllFront(o opener, sealed []byte) ([]byte, error) {
	p, err := o.OpenFrontAt(bytes.NewReader(sealed), int64(len(sealed)))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(p, 0, p.Size()))
}

// ways are all ways to read a whole file.
var ways = []struct {
	name string
	read func(opener, []byte) ([]byte, error)
}{{"Open", openAll}, {"OpenAt", openAllAt}, {"OpenFrontAt", openAllFront}}

// wantOpens checks that o reads plain out of sealed, in every way that the file allows.
func wantOpens(t *testing.T, o opener, sealed, plain []byte) {
	t.Helper()
	for _, way := range ways {
		got, err := way.read(o, sealed)
		if errors.Is(err, errors.ErrUnsupported) && armoured(sealed) && way.name != "Open" {
			continue
		}
		if err != nil {
			t.Errorf("%s: got error %v, want %d bytes", way.name, err, len(plain))
		} else if !bytes.Equal(got, plain) {
			t.Errorf("%s: got %d other bytes, want the %d that were sealed", way.name, len(got), len(plain))
		}
	}
}

// wantError checks that o reads sealed in no way, with an error that matches want; what is read before must be the
// beginning of plain.
func wantError(t *testing.T, o opener, sealed, plain []byte, want error) {
	t.Helper()
	for _, way := range ways {
		got, err := way.read(o, sealed)
		if !errors.Is(err, want) {
			t.Errorf("%s: got error %v, want one that matches %q", way.name, err, want)
		}
		if !bytes.HasPrefix(plain, got) {
			t.Errorf("%s: got %d bytes that are not the beginning of what was sealed", way.name, len(got))
		}
	}
}

// noise returns n random bytes, the same for the same seed.
func noise(n int, seed byte) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

// brokenAt is a source that fails with err from offset at on.
type brokenAt struct {
	data []byte
	at   int64
	err  error
}

func (b brokenAt) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	if off < b.at {
		n = copy(p, b.data[off:b.at])
	}
	if n < len(p) {
		return n, b.err
	}
	return n, nil
}
