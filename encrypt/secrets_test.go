package encrypt

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// wantNoSecret checks that text shows no part of secret, as text, hex or numbers.
func wantNoSecret(t *testing.T, what, text, secret string) {
	t.Helper()
	const part = 12
	for i := 0; i+part <= len(secret); i++ {
		piece := secret[i : i+part]
		numbers := strings.Trim(fmt.Sprint([]byte(piece)), "[]")
		for _, form := range []string{piece, strings.ToLower(piece), hex.EncodeToString([]byte(piece)), numbers} {
			if strings.Contains(text, form) {
				t.Errorf("%s shows the secret %q: %.300s", what, form, text)
				return
			}
		}
	}
}

// wantHidden prints v in all ways, also inside of other things, and looks for the secret.
func wantHidden(t *testing.T, what string, v any, secret string) {
	t.Helper()
	type public struct{ V any }
	type private struct{ v any }
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X"} {
		for _, one := range []any{v, public{v}, &public{v}, private{v}, []any{v}, map[string]any{"v": v}} {
			wantNoSecret(t, what+" by "+verb, fmt.Sprintf(verb, one), secret)
		}
	}
}

func TestNoSecretIsPrinted(t *testing.T) {
	const passphrase = "correct horse battery staple"
	for _, postQuantum := range []bool{false, true} {
		secret, public, err := Generate(postQuantum)
		if err != nil {
			t.Fatal(err)
		}
		ids := identities(t, secret)
		payload := secret[strings.LastIndex(secret, "1")+1:]
		wantHidden(t, "Identities", ids, payload)
		wantHidden(t, "Identities by value", *ids, payload)
		key, err := parseKey(secret)
		if err != nil {
			t.Fatal(err)
		}
		wantHidden(t, "Key", key, payload)
		wantHidden(t, "Key by value", *key, payload)
		type holder struct{ k Key }
		wantHidden(t, "Key inside", holder{*key}, payload)
		sealed := sealAll(t, recipients(t, public), []byte("x"))
		r, err := ids.Open(bytes.NewReader(sealed))
		if err != nil {
			t.Fatal(err)
		}
		wantHidden(t, "reader", r, payload)
		p, err := ids.OpenAt(bytes.NewReader(sealed), int64(len(sealed)))
		if err != nil {
			t.Fatal(err)
		}
		wantHidden(t, "Plain", p, payload)
	}
	to, ids := passphrases(t, passphrase)
	type holder struct {
		r Recipients
		i Identities
	}
	wantHidden(t, "Recipients", to, passphrase)
	wantHidden(t, "Recipients by value", *to, passphrase)
	wantHidden(t, "Identities", ids, passphrase)
	wantHidden(t, "both inside", holder{*to, *ids}, passphrase)
	wantHidden(t, "texts", to.Strings(), passphrase)
	w, err := to.Seal(&bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	wantHidden(t, "writer", w, passphrase)
}

// TestNoSecretInErrors puts secrets where they don't belong.
func TestNoSecretInErrors(t *testing.T) {
	secret, _, _ := Generate(false)
	strong, _, _ := Generate(true)
	const passphrase = "correct horse battery staple"
	to, ids := pair(t, false)
	for _, s := range []string{secret, strong, secret[:40], strings.ToLower(secret), " " + secret, "x" + secret, passphrase,
		"-----BEGIN OPENSSH PRIVATE KEY-----\n" + passphrase} {
		_, inRecipients := ParseRecipients(s)
		_, inFile := ReadRecipients(strings.NewReader(s))
		_, inIdentities := ReadIdentities(strings.NewReader("x"+s), IdentityOptions{})
		_, inKey := OpenKey([]byte(s), ids)
		_, inSealedKey := OpenKey(sealAll(t, to, []byte("x"+s)), ids)
		_, inOpen := openAll(ids, []byte(s))
		_, inOpenAt := openAllAt(ids, []byte(s))
		_, inArmour := openAll(ids, []byte("-----BEGIN AGE ENCRYPTED FILE-----"+s))
		locked, err := ReadIdentities(bytes.NewReader(lockedIdentity(t, passphrase, "x"+s)),
			IdentityOptions{Passphrase: func() (string, error) { return passphrase, nil }})
		if err != nil {
			t.Fatal(err)
		}
		_, inLocked := openAll(locked, sealAll(t, to, nil))
		for name, err := range map[string]error{"ParseRecipients": inRecipients, "ReadRecipients": inFile, "ReadIdentities": inIdentities,
			"OpenKey": inKey, "OpenKey, inside": inSealedKey, "Open": inOpen, "OpenAt": inOpenAt, "armour": inArmour, "locked": inLocked} {
			if err == nil {
				t.Errorf("%s of %.8q…: got no error", name, s)
				continue
			}
			for e := err; e != nil; e = errors.Unwrap(e) {
				wantNoSecret(t, name, fmt.Sprintf("%v %+v", e, e), strings.TrimPrefix(s, "-----BEGIN OPENSSH PRIVATE KEY-----\n"))
			}
		}
	}
}

// TestErrorsStayShort: a hostile header or plugin can't fill the screen, nor send it control characters.
func TestErrorsStayShort(t *testing.T) {
	_, ids := pair(t, false)
	for _, file := range []string{intro + "-> " + strings.Repeat("x", 1<<20) + "\n", intro + strings.Repeat("\x1b[2J", 10000) + "\n",
		intro + strings.Repeat("-> x\n\n", 2000) + "--- \n"} {
		for _, way := range ways {
			_, err := way.read(ids, []byte(file))
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: got error %.100v, want ErrDamaged", way.name, err)
				continue
			}
			if text := err.Error(); len(text) > 500 || strings.ContainsAny(text, "\x1b\n") {
				t.Errorf("%s: got %d bytes of error: %.200q", way.name, len(text), text)
			}
		}
	}
}
