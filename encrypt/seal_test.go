package encrypt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"filippo.io/age/armor"
)

func TestRoundTripSizesAndSteps(t *testing.T) {
	const b = chunkSize
	to, ids := pair(t, false)
	for _, size := range []int{0, 1, b - 1, b, b + 1, 2 * b, 2*b + 5} {
		plain := noise(size, 1)
		for _, step := range []int{1000, b, b + 1, 3 * b} {
			t.Run(fmt.Sprintf("%d bytes by %d", size, step), func(t *testing.T) {
				var out bytes.Buffer
				w, err := to.Seal(&out)
				if err != nil {
					t.Fatal(err)
				}
				for rest := plain; len(rest) > 0; {
					n, err := w.Write(rest[:min(step, len(rest))])
					if err != nil {
						t.Fatal(err)
					}
					rest = rest[n:]
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				wantOpens(t, ids, out.Bytes(), plain)
			})
		}
	}
}

func TestEveryKindOpens(t *testing.T) {
	classicTo, classicIDs := pair(t, false)
	strongTo, strongIDs := pair(t, true)
	wordTo, wordIDs := passphrases(t, "correct horse")
	plain := []byte("the table of contents")
	for _, c := range []struct {
		name string
		to   sealer
		ids  opener
	}{
		{"X25519", classicTo, classicIDs},
		{"post-quantum", strongTo, strongIDs},
		{"passphrase", wordTo, wordIDs},
		{"all identities at once", strongTo, wordIDs.With(classicIDs).With(strongIDs)},
		{"with nothing more", classicTo, classicIDs.With(nil)},
		{"key", newKey(t, false), nil},
		{"post-quantum key", newKey(t, true), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ids := c.ids
			if ids == nil {
				ids = c.to.(*Key)
			}
			sealed := sealAll(t, c.to, plain)
			wantOpens(t, ids, sealed, plain)
			wantOpens(t, ids, armour(t, sealed), plain)
			if !Sealed(sealed) || !Sealed(sealed[:64]) || !Sealed(armour(t, sealed)[:64]) {
				t.Error("Sealed: got false for an age file, want true")
			}
		})
	}
}

func armour(t testing.TB, sealed []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := armor.NewWriter(&out)
	if _, err := w.Write(sealed); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestArmourAfterWhiteSpace(t *testing.T) {
	to, ids := pair(t, false)
	plain := []byte("plain")
	sealed := armour(t, sealAll(t, to, plain))
	wantOpens(t, ids, append([]byte("\n \t\r\n"), sealed...), plain)
	got, err := openAll(ids, append(bytes.Repeat([]byte("\n"), 2*leading), sealed...))
	if !errors.Is(err, ErrNotSealed) || len(got) > 0 {
		t.Errorf("behind too much white space: got %q and error %v, want ErrNotSealed", got, err)
	}
}

func TestSealed(t *testing.T) {
	for head, want := range map[string]bool{
		"age-encryption.org/v1\n-> X": true, "age-encryption.org/v2\n": true, "-----BEGIN AGE ENCRYPTED FILE-----\n": true,
		"\n-----BEGIN AGE ENCRYPTED FILE-----": true, "": false, "age-encryption": false, "\x28\xb5\x2f\xfd": false,
		"AGE-SECRET-KEY-1": false, "-----BEGIN OPENSSH PRIVATE KEY-----": false, " age-encryption.org/v1\n": false,
	} {
		if got := Sealed([]byte(head)); got != want {
			t.Errorf("Sealed(%q): got %v, want %v", head, got, want)
		}
	}
}

func TestSecondRecipientOpens(t *testing.T) {
	_, mineText, err := Generate(false)
	if err != nil {
		t.Fatal(err)
	}
	secret, hers, err := Generate(false)
	if err != nil {
		t.Fatal(err)
	}
	sealed := sealAll(t, recipients(t, mineText, hers), []byte("both"))
	wantOpens(t, identities(t, secret), sealed, []byte("both"))
	other, _, _ := Generate(false)
	wantOpens(t, identities(t, "# wrong one first\n"+other+"\n\n"+secret+"\n"), sealed, []byte("both"))
}

func TestPassphraseIsTakenAsItIs(t *testing.T) {
	for _, c := range []struct {
		name, seal, open string
		want             error
	}{
		{"same", "correct horse", "correct horse", nil},
		{"line feed when opening", "correct horse", "correct horse\n", ErrNoMatch},
		{"line feed when sealing", "correct horse\n", "correct horse", ErrNoMatch},
		{"line feed in both", "correct horse\n", "correct horse\n", nil},
		{"not text", "\xff\x00 ", "\xff\x00 ", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			to, _ := passphrases(t, c.seal)
			_, ids := passphrases(t, c.open)
			got, err := openAll(ids, sealAll(t, to, []byte("x")))
			if c.want == nil && (err != nil || string(got) != "x") {
				t.Errorf("got %q and error %v, want what was sealed", got, err)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("got error %v, want %v", err, c.want)
			}
		})
	}
	for name, make := range map[string]func() error{
		"Passphrase":         func() error { _, err := Passphrase(""); return err },
		"PassphraseIdentity": func() error { _, err := PassphraseIdentity(""); return err },
	} {
		if err := make(); err == nil || !strings.Contains(err.Error(), "empty") {
			t.Errorf("%s of nothing: got error %v, want one that says empty", name, err)
		}
	}
}

// failing is a writer that takes room bytes and then fails with err; a short one says nothing.
type failing struct {
	room int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if len(p) <= f.room {
		f.room -= len(p)
		return len(p), nil
	}
	n := f.room
	f.room = 0
	return n, f.err
}

func TestSealPassesOnWriteErrors(t *testing.T) {
	full := errors.New("disk full")
	to, _ := pair(t, false)
	header := len(sealAll(t, to, nil)) - 16
	for _, c := range []struct {
		name string
		room int
		err  error
		want error
	}{
		{"header", 0, full, full},
		{"middle of the header", header / 2, full, full},
		{"first chunk", header, full, full},
		{"second chunk", header + storedSize, full, full},
		{"short write", header, nil, io.ErrShortWrite},
		{"short header", 10, nil, io.ErrShortWrite},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := to.Seal(&failing{c.room, c.err})
			if c.room < header {
				if w != nil || !errors.Is(err, c.want) {
					t.Fatalf("Seal: got %v and error %v, want no writer and %v", w, err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.Write(noise(2*chunkSize+1, 1))
			if !errors.Is(err, c.want) {
				t.Fatalf("Write: got error %v, want %v", err, c.want)
			}
			if _, again := w.Write([]byte("x")); !errors.Is(again, c.want) {
				t.Errorf("Write after an error: got %v, want %v again", again, c.want)
			}
			if err := w.Close(); !errors.Is(err, c.want) {
				t.Errorf("Close after an error: got %v, want %v again", err, c.want)
			}
		})
	}
}

func TestSealCloses(t *testing.T) {
	full := errors.New("disk full")
	to, _ := pair(t, false)
	header := len(sealAll(t, to, nil)) - 16
	w, err := to.Seal(&failing{header, full})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Close(); err != full {
			t.Errorf("Close: got error %v, want %v", err, full)
		}
	}
	var out bytes.Buffer
	if w, err = to.Seal(&out); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Errorf("Close twice: got error %v, want none", err)
	}
	if n, err := w.Write([]byte("x")); n != 0 || err == nil {
		t.Errorf("Write after Close: got %d and error %v, want an error", n, err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close after a late Write: got error %v, want none: the file is whole", err)
	}
}

func TestSealWithoutRecipients(t *testing.T) {
	for name, r := range map[string]*Recipients{"nil": nil, "zero": {}} {
		if _, err := r.Seal(io.Discard); err == nil || !strings.Contains(err.Error(), "no recipient") {
			t.Errorf("%s: got error %v, want one that says no recipient", name, err)
		}
		if got := len(r.Strings()); got != 0 || r.PostQuantum() || r.String() != "" {
			t.Errorf("%s: got %d recipients, want none", name, got)
		}
	}
}

func TestSealWritesHeaderAtOnce(t *testing.T) {
	to, _ := pair(t, true)
	count := &counter{}
	w, err := to.Seal(count)
	if err != nil {
		t.Fatal(err)
	}
	if count.writes != 1 {
		t.Errorf("header: got %d writes, want 1", count.writes)
	}
	if _, err := w.Write(noise(10*chunkSize, 1)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if count.writes != 11 || count.longest != storedSize {
		t.Errorf("got %d writes of at most %d bytes, want 11 of at most %d", count.writes, count.longest, storedSize)
	}
}

type counter struct{ writes, longest int }

func (c *counter) Write(p []byte) (int, error) {
	c.writes++
	c.longest = max(c.longest, len(p))
	return len(p), nil
}

func TestOpenReadsAnyReader(t *testing.T) {
	to, ids := pair(t, true)
	plain := noise(2*chunkSize+17, 3)
	sealed := sealAll(t, to, plain)
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"one byte": iotest.OneByteReader, "half": iotest.HalfReader, "data and error": iotest.DataErrReader,
	} {
		for _, file := range [][]byte{sealed, armour(t, sealed)} {
			r, err := ids.Open(wrap(bytes.NewReader(file)))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := iotest.TestReader(r, plain); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestOpenPassesOnReadErrors(t *testing.T) {
	lost := errors.New("connection lost")
	to, ids := pair(t, false)
	plain := noise(chunkSize+100, 4)
	sealed := sealAll(t, to, plain)
	header := len(sealAll(t, to, nil)) - 32 // without nonce and tag
	for _, at := range []int{0, 1, 10, 30, header - 1, header, header + 5, header + 16, header + 1000, len(sealed) - 1, len(sealed)} {
		for _, cause := range []error{lost, io.ErrUnexpectedEOF} {
			r, err := ids.Open(io.MultiReader(bytes.NewReader(sealed[:at]), iotest.ErrReader(cause)))
			var got []byte
			if err == nil {
				got, err = io.ReadAll(r)
				if _, again := r.Read(make([]byte, 1)); again != err {
					t.Errorf("cut at %d: got error %v after %v, want it again", at, again, err)
				}
			}
			if !errors.Is(err, cause) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrNoMatch) {
				t.Errorf("source fails at %d: got error %v, want only %v", at, err, cause)
			}
			if !bytes.HasPrefix(plain, got) {
				t.Errorf("source fails at %d: got other bytes than were sealed", at)
			}
		}
	}
}
