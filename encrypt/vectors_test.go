package encrypt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vector is one file of testdata/vectors: lines of "name: value" up to an empty one, then an age file as it is.
//
//	expect      ok, no match, damaged or not sealed
//	identity    a line of an identity file; may repeat
//	passphrase  instead of it
//	sha256      of the plaintext, hexadecimal; with ok only
//	mac         the file is a key's: what the key makes of "hello" for the purpose "mbwrap manifest"
type vector struct {
	fields map[string]string
	sealed []byte
}

func readVector(t *testing.T, path string) vector {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, sealed, ok := bytes.Cut(data, []byte("\n\n"))
	if !ok {
		t.Fatalf("%s: no empty line", path)
	}
	v := vector{map[string]string{}, sealed}
	for line := range strings.Lines(string(head)) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok {
			t.Fatalf("%s: line %q", path, line)
		}
		if name == "identity" {
			value = v.fields[name] + value + "\n"
		}
		v.fields[name] = value
	}
	return v
}

// identities returns the identities that the vector names; passphrases are of a low work factor.
func (v vector) identities(t *testing.T) *Identities {
	t.Helper()
	if passphrase, ok := v.fields["passphrase"]; ok {
		ids, err := PassphraseIdentity(passphrase)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	return identities(t, v.fields["identity"])
}

// TestVectors: files that were written once open for ever, and those with one fault each never do.
func TestVectors(t *testing.T) {
	paths, err := filepath.Glob("testdata/vectors/*.vector")
	if err != nil || len(paths) < 15 {
		t.Fatalf("got %d vectors, error %v", len(paths), err)
	}
	expected := map[string]error{"ok": nil, "no match": ErrNoMatch, "damaged": ErrDamaged, "not sealed": ErrNotSealed}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".vector"), func(t *testing.T) {
			v := readVector(t, path)
			want, known := expected[v.fields["expect"]]
			if !known {
				t.Fatalf("expect: %q", v.fields["expect"])
			}
			ids := v.identities(t)
			for _, way := range ways {
				plain, err := way.read(ids, v.sealed)
				if errors.Is(err, errors.ErrUnsupported) && armoured(v.sealed) {
					continue
				}
				if !errors.Is(err, want) || errors.Is(err, ErrNoMatch) != (want == ErrNoMatch) {
					t.Errorf("%s: got error %v, want %v", way.name, err, want)
				}
				sum := sha256.Sum256(plain)
				if got := hex.EncodeToString(sum[:]); want == nil && got != v.fields["sha256"] {
					t.Errorf("%s: got plaintext with SHA-256 %s, want %s", way.name, got, v.fields["sha256"])
				}
			}
			if mac, ok := v.fields["mac"]; ok {
				key, err := OpenKey(v.sealed, ids)
				if err != nil {
					t.Fatal(err)
				}
				if got := hex.EncodeToString(key.MAC("mbwrap manifest", []byte("hello"))); got != mac {
					t.Errorf("MAC: got %s, want %s", got, mac)
				}
			}
		})
	}
}
