package encrypt

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"
)

func TestKeyGoesThroughItsFile(t *testing.T) {
	for _, postQuantum := range []bool{false, true} {
		to, ids := pair(t, postQuantum)
		key := newKey(t, postQuantum)
		if got := key.PostQuantum(); got != postQuantum {
			t.Errorf("PostQuantum: got %v, want %v", got, postQuantum)
		}
		file, err := key.SealTo(to)
		if err != nil {
			t.Fatal(err)
		}
		plain := noise(3*chunkSize+1, 19)
		sealed := sealAll(t, key, plain)
		for _, form := range [][]byte{file, armour(t, file)} {
			again, err := OpenKey(form, ids)
			if err != nil {
				t.Fatal(err)
			}
			wantOpens(t, again, sealed, plain)
			wantOpens(t, key, sealAll(t, again, plain), plain)
			if again.PostQuantum() != postQuantum || !bytes.Equal(again.MAC("p", plain), key.MAC("p", plain)) {
				t.Error("the key that was read is another one")
			}
		}
	}
}

// TestKeyFileIsAnIdentityFile: the content of a key's file is what every age program takes as an identity file.
func TestKeyFileIsAnIdentityFile(t *testing.T) {
	to, ids := pair(t, false)
	key := newKey(t, false)
	file, err := key.SealTo(to)
	if err != nil {
		t.Fatal(err)
	}
	content, err := openAll(ids, file)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.SplitAfter(string(content), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "# ") ||
		!strings.HasPrefix(lines[1], "AGE-SECRET-KEY-1") || lines[2] != "" {
		t.Errorf("got %d lines, want a comment and an identity", len(lines))
	}
	if public := key.secret().recipients.Strings()[0]; bytes.Contains(content, []byte(public)) {
		t.Error("the key's recipient stands in its file, want it told to nobody")
	}
	wantOpens(t, identities(t, string(content)), sealAll(t, key, []byte("x")), []byte("x"))
}

func TestKeyToNobodyFails(t *testing.T) {
	if got, err := newKey(t, false).SealTo(nil); err == nil {
		t.Errorf("SealTo nobody: got %d bytes, want an error", len(got))
	}
}

func TestOpenKeyRefuses(t *testing.T) {
	to, ids := pair(t, false)
	_, wrong := pair(t, false)
	secret, _, _ := Generate(false)
	second, _, _ := Generate(true)
	good, err := newKey(t, false).SealTo(to)
	if err != nil {
		t.Fatal(err)
	}
	content := func(text string) []byte { return sealAll(t, to, []byte(text)) }
	for _, c := range []struct {
		name   string
		sealed []byte
		ids    *Identities
		want   error
	}{
		{"wrong identity", good, wrong, ErrNoMatch},
		{"no identity", good, nil, ErrNoMatch},
		{"nothing", nil, ids, ErrNotSealed},
		{"not sealed", []byte(secret), ids, ErrNotSealed},
		{"cut off", good[:len(good)-1], ids, ErrDamaged},
		{"too long", make([]byte, maxKeyFile+1), ids, ErrDamaged},
		{"empty", content(""), ids, ErrDamaged},
		{"comments", content("# none\n\n"), ids, ErrDamaged},
		{"two identities", content(secret + "\n" + second + "\n"), ids, ErrDamaged},
		{"something else", content("hunter2"), ids, ErrDamaged},
		{"plugin identity", content("AGE-PLUGIN-CARD-10QPQG6"), ids, ErrDamaged},
		{"SSH key", content("-----BEGIN OPENSSH PRIVATE KEY-----"), ids, ErrDamaged},
		{"too much inside", content(secret + strings.Repeat("\n", maxKeyPlain)), ids, ErrDamaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			key, err := OpenKey(c.sealed, c.ids)
			if key != nil || !errors.Is(err, c.want) {
				t.Errorf("got %v and error %v, want %v", key, err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("the error repeats the content: %v", err)
			}
		})
	}
}

// TestKeyTakesNoOther: a file of another key is damage, whatever the cause, because this key is known to be right.
func TestKeyTakesNoOther(t *testing.T) {
	for _, postQuantum := range []bool{false, true} {
		key, other := newKey(t, false), newKey(t, postQuantum)
		sealed := sealAll(t, other, []byte("x"))
		wantError(t, key, sealed, nil, ErrDamaged)
		if _, err := openAll(key, sealed); errors.Is(err, ErrNoMatch) || !strings.Contains(err.Error(), "not sealed with this backup's key") {
			t.Errorf("got error %v, want ErrDamaged that says why", err)
		}
	}
}

func TestMAC(t *testing.T) {
	// Made with Python's hmac: HKDF-SHA256(salt=None, info=purpose) of the identity's line, then HMAC-SHA256.
	const line = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"
	key, err := parseKey(line)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ purpose, data, want string }{
		{"mbwrap manifest", "hello", "7dd4542262c2821a2d6b24e26bce7e38eb35f6e610829bcdc5c2690aed836508"},
		{"mbwrap key", "hello", "f052cd51cd92a87cb6dc13aa4c49e7e92fd25e1d6bad72945fef9b08e2706d7c"},
		{"mbwrap manifest", "", "4f87c68a210c18e9f059b75347ca7dda0362be4af84c962158adb03cf4c7f80b"},
	} {
		if got := hex.EncodeToString(key.MAC(c.purpose, []byte(c.data))); got != c.want {
			t.Errorf("MAC(%q, %q): got %s, want %s", c.purpose, c.data, got, c.want)
		}
	}
	if a, b := key.MAC("p", []byte("x")), newKey(t, false).MAC("p", []byte("x")); bytes.Equal(a, b) {
		t.Error("two keys make the same MAC")
	}
}

func TestKeyByManyGoroutines(t *testing.T) {
	key := newKey(t, true)
	want := key.MAC("p", []byte("x"))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			plain := noise(chunkSize+9, 20)
			wantOpens(t, key, sealAll(t, key, plain), plain)
			if !bytes.Equal(key.MAC("p", []byte("x")), want) {
				t.Error("MAC: got another one")
			}
		})
	}
	group.Wait()
}
