package encrypt

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// Identities for fuzzing: fixed, so that seeds open.
const (
	fuzzIdentity = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"
	fuzzPlugin   = "AGE-PLUGIN-CARD-10QPQG6"
)

// seeds are files to the fuzz identity, whole and broken.
func seeds(f *testing.F) (ids *Identities, files [][]byte) {
	f.Helper()
	ids = identities(f, fuzzIdentity)
	to := recipients(f, ids.Recipients()...)
	whole := sealAll(f, to, []byte("whole"))
	word, _ := passphrases(f, "p")
	changed := bytes.Clone(whole)
	changed[len(changed)-1] ^= 1
	long := sealAll(f, to, noise(chunkSize+10, 24))
	return ids, [][]byte{whole, sealAll(f, to, nil), long, long[:len(long)-5], changed, whole[:100], armour(f, whole), sealAll(f, word, nil), nil,
		[]byte(intro), []byte(intro + "-> X25519 AAAA\nAAAA\n--- AAAA\n"), sealAll(f, to, []byte(fuzzIdentity+"\n"))}
}

// FuzzParseRecipients: what is accepted is a line of text that is accepted again.
func FuzzParseRecipients(f *testing.F) {
	_, strong, err := Generate(true)
	if err != nil {
		f.Fatal(err)
	}
	for _, line := range []string{"", sshEd25519, strong, identities(f, fuzzIdentity).Recipients()[0], "age1card1qq", fuzzIdentity, "ssh-rsa AAAA"} {
		f.Add(line, line)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 4*maxRecipientLine {
			return
		}
		if r, err := ParseRecipients(a, b); err == nil {
			again, err := ParseRecipients(r.Strings()...)
			if err != nil || !slices.Equal(again.Strings(), r.Strings()) || again.PostQuantum() != r.PostQuantum() {
				t.Errorf("%q were accepted, then %v", r.Strings(), err)
			}
		}
		lines, err := ReadRecipients(strings.NewReader(a + "\n" + b))
		if err == nil {
			if _, err := ParseRecipients(lines...); err != nil && !errors.Is(err, ErrMixed) && len(lines) <= maxRecipients {
				t.Errorf("ReadRecipients gave %q, then %v", lines, err)
			}
		}
	})
}

// FuzzReadIdentities: any file is read or refused, without a question, and never repeated by the error.
func FuzzReadIdentities(f *testing.F) {
	_, files := seeds(f)
	for _, file := range files {
		f.Add(file)
	}
	for _, text := range []string{fuzzIdentity, "# c\n" + fuzzIdentity + "\r\n" + fuzzPlugin, sshEd25519, "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz"} {
		f.Add([]byte(text))
	}
	o := IdentityOptions{Passphrase: func() (string, error) { panic("asked before it was needed") }}
	f.Fuzz(func(t *testing.T, file []byte) {
		ids, err := ReadIdentities(bytes.NewReader(file), o)
		if (err == nil) == ids.Empty() {
			t.Errorf("got %v and error %v", ids, err)
		}
		if err != nil && len(err.Error()) > 600 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	})
}

// FuzzOpenKey: a key that is accepted seals and opens.
func FuzzOpenKey(f *testing.F) {
	ids, files := seeds(f)
	for _, file := range files {
		f.Add(file, []byte(fuzzIdentity))
	}
	to := recipients(f, ids.Recipients()...)
	f.Fuzz(func(t *testing.T, file, content []byte) {
		_, _ = OpenKey(file, ids)
		key, err := OpenKey(sealAll(t, to, content), ids)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("got error %v, want ErrDamaged", err)
			}
			return
		}
		if got, err := openAll(key, sealAll(t, key, content)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("the key does not open what it seals: %v", err)
		}
	})
}

// FuzzOpen: every error is of a known kind.
func FuzzOpen(f *testing.F) {
	ids, files := seeds(f)
	for _, file := range files {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if _, err := openAll(ids, file); err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNoMatch) {
			t.Errorf("got error %v of no kind", err)
		}
	})
}

// FuzzOpenAt: reading at random and front to back agree, and the salvaging reader serves no less.
func FuzzOpenAt(f *testing.F) {
	ids, files := seeds(f)
	for _, file := range files {
		f.Add(file, int64(len(file)), int64(3))
		f.Add(file, int64(1)<<62, int64(chunkSize))
	}
	f.Fuzz(func(t *testing.T, file []byte, size, off int64) {
		want, wantErr := openAll(ids, file)
		for _, open := range []func(io.ReaderAt, int64) (*Plain, error){ids.OpenAt, ids.OpenFrontAt} {
			p, err := open(bytes.NewReader(file), size)
			if err != nil {
				if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNoMatch) && !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("got error %v of no kind", err)
				}
				continue
			}
			b := make([]byte, 100)
			_, _ = p.ReadAt(b, off)
			if at := p.StoredOffset(off); at < 0 || at > size {
				t.Errorf("StoredOffset(%d): got %d in a file of %d bytes", off, at, size)
			}
			if size != int64(len(file)) {
				continue
			}
			got, err := io.ReadAll(io.NewSectionReader(p, 0, p.Size()))
			if (err == nil) != (wantErr == nil) || !bytes.HasPrefix(got, want) || err == nil && len(got) != len(want) {
				t.Errorf("got %d bytes and error %v, front to back %d and %v", len(got), err, len(want), wantErr)
			}
		}
	})
}
