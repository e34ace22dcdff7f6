package encrypt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"filippo.io/age/plugin"
)

// Public keys for tests; the private ones were thrown away.
const (
	sshEd25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIF2nG9x9HL8qIfNR4qK3BTNW8D3x/sdEMx1UYwOL1NZL operator@example"
	sshECDSA   = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBAAA operator@example"
)

func TestParseRecipients(t *testing.T) {
	secret, classic, _ := Generate(false)
	strongSecret, strong, _ := Generate(true)
	_, other, _ := Generate(false)
	card := plugin.EncodeRecipient("card", []byte("x"))
	for _, c := range []struct {
		name        string
		lines       []string
		want        []string // nil: an error
		postQuantum bool
		err         string
	}{
		{"classic", []string{classic}, []string{classic}, false, ""},
		{"white space", []string{" " + classic + "\r\n"}, []string{classic}, false, ""},
		{"post-quantum", []string{strong}, []string{strong}, true, ""},
		{"ssh", []string{sshEd25519}, []string{sshEd25519}, false, ""},
		{"plugin", []string{card}, []string{card}, false, ""},
		{"several", []string{classic, sshEd25519, other, card}, []string{classic, sshEd25519, other, card}, false, ""},
		{"twice", []string{classic, other, classic}, []string{classic, other}, false, ""},
		{"tag", []string{plugin.EncodeRecipient("tag", []byte("x"))}, []string{plugin.EncodeRecipient("tag", []byte("x"))}, false, ""},
		{"post-quantum tag", []string{plugin.EncodeRecipient("tagpq", []byte("x")), strong},
			[]string{plugin.EncodeRecipient("tagpq", []byte("x")), strong}, true, ""},
		{"none", nil, nil, false, "no recipient is given"},
		{"empty", []string{classic, " "}, nil, false, "recipient 2: is empty"},
		{"identity", []string{classic, secret}, nil, false, "recipient 2: looks like an identity"},
		{"identity in small letters", []string{strings.ToLower(secret)}, nil, false, "recipient 1: looks like an identity"},
		{"post-quantum identity", []string{strongSecret}, nil, false, "looks like an identity"},
		{"plugin identity", []string{plugin.EncodeIdentity("card", []byte("x"))}, nil, false, "looks like an identity"},
		{"private SSH key", []string{"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz"}, nil, false, "looks like an identity"},
		{"typing error", []string{classic[:20] + "b" + classic[21:]}, nil, false, "is malformed"},
		{"cut off", []string{strong[:1000]}, nil, false, "is malformed"},
		{"bad plugin", []string{card[:len(card)-1]}, nil, false, "is malformed"},
		{"two in one line", []string{classic + "\n" + other}, nil, false, "is not a line of text"},
		{"not UTF-8", []string{"ssh-ed25519 \xff"}, nil, false, "is not a line of text"},
		{"too long", []string{"age1" + strings.Repeat("q", maxRecipientLine)}, nil, false, "longer than 8192 bytes"},
		{"other SSH key", []string{sshECDSA}, nil, false, "unknown kind of recipient"},
		{"broken SSH key", []string{"ssh-rsa AAAA"}, nil, false, "malformed or of a kind"},
		{"something else", []string{"hunter2"}, nil, false, "unknown kind of recipient"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := ParseRecipients(c.lines...)
			if c.want == nil {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Strings(); !slices.Equal(got, c.want) {
				t.Errorf("Strings: got %q, want %q", got, c.want)
			}
			if got := r.PostQuantum(); got != c.postQuantum {
				t.Errorf("PostQuantum: got %v, want %v", got, c.postQuantum)
			}
		})
	}
}

func TestTooManyRecipients(t *testing.T) {
	lines := make([]string, maxRecipients+1)
	for i := range lines {
		lines[i] = plugin.EncodeRecipient("card", fmt.Append(nil, i))
	}
	if _, err := ParseRecipients(lines...); err == nil || !strings.Contains(err.Error(), "1001 recipients are more") {
		t.Errorf("got error %v, want one that says how many", err)
	}
	if _, err := ParseRecipients(lines[1:]...); err != nil {
		t.Errorf("%d recipients: got error %v, want none", maxRecipients, err)
	}
}

func TestMixedRecipients(t *testing.T) {
	_, classic, _ := Generate(false)
	_, strong, _ := Generate(true)
	for _, lines := range [][]string{{classic, strong}, {strong, classic}, {strong, sshEd25519}, {classic, plugin.EncodeRecipient("tagpq", nil)},
		{strong, plugin.EncodeRecipient("tag", nil)}} {
		_, err := ParseRecipients(lines...)
		if !errors.Is(err, ErrMixed) || !strings.Contains(err.Error(), "give only post-quantum recipients or only others") {
			t.Errorf("%.20q: got error %v, want ErrMixed that says what to do", lines, err)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("the error has %d bytes, want something to read", len(err.Error()))
		}
	}
	// A passphrase can't be put beside others by way of this package; age's own refusal must be understood all the same.
	word, err := Passphrase("x")
	if err != nil {
		t.Fatal(err)
	}
	if word, err = word.WithWorkFactor(1); err != nil {
		t.Fatal(err)
	}
	both := slices.Concat(recipients(t, classic).all(), word.all())
	if _, err := newRecipients(both).Seal(io.Discard); !errors.Is(err, ErrMixed) || !strings.Contains(err.Error(), "a passphrase alone") {
		t.Errorf("passphrase and X25519: got error %v, want ErrMixed", err)
	}
}

func TestReadRecipients(t *testing.T) {
	_, classic, _ := Generate(false)
	_, strong, _ := Generate(true)
	secret, _, _ := Generate(false)
	for _, c := range []struct {
		name, file string
		want       []string
		err        string
	}{
		{"one", classic, []string{classic}, ""},
		{"comments", "# ours\n\n" + classic + "\n  # theirs\r\n" + strong + "\r\n", []string{classic, strong}, ""},
		{"ssh", sshEd25519 + "\n", []string{sshEd25519}, ""},
		{"nothing", "", nil, "has no recipient"},
		{"only comments", "# none\n\n", nil, "has no recipient"},
		{"identity", "#\n" + classic + "\n" + secret, nil, "line 3: looks like an identity"},
		{"malformed", classic + "\nage1qqqq\n", nil, "line 2: \"age1qqqq\" is malformed"},
		{"other text", "root:x:0:0", nil, "line 1: unknown kind of recipient"},
		{"too long", strings.Repeat("#\n", maxRecipientsFile), nil, "longer than 1048576 bytes"},
		{"one long line", "#" + strings.Repeat("x", maxRecipientsFile), nil, "longer than 1048576 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadRecipients(strings.NewReader(c.file))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %q and error %v, want %q", got, err, c.want)
			}
		})
	}
	lost := errors.New("disk gone")
	if _, err := ReadRecipients(iotest.ErrReader(lost)); !errors.Is(err, lost) {
		t.Errorf("got error %v, want %v", err, lost)
	}
}

func TestPassphraseRecipients(t *testing.T) {
	r, err := Passphrase("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Strings(); !slices.Equal(got, []string{"passphrase"}) || r.PostQuantum() || r.String() != "passphrase" {
		t.Errorf("got %q, want only that it is a passphrase", got)
	}
	for _, bad := range []int{-1, 0, maxWorkFactor + 1, 31} {
		if _, err := r.WithWorkFactor(bad); err == nil {
			t.Errorf("WithWorkFactor(%d): got no error", bad)
		}
	}
	cheap, err := r.WithWorkFactor(1)
	if err != nil {
		t.Fatal(err)
	}
	if sealed := sealAll(t, cheap, nil); !bytes.Contains(sealed[:100], []byte(" 1\n")) {
		t.Errorf("work factor 1: got header %q", sealed[:100])
	}
	dearer, err := cheap.WithWorkFactor(2)
	if err != nil {
		t.Fatal(err)
	}
	if sealed := sealAll(t, dearer, nil); !bytes.Contains(sealed[:100], []byte(" 2\n")) {
		t.Errorf("work factor 2: got header %q", sealed[:100])
	}
	if sealed := sealAll(t, cheap, nil); !bytes.Contains(sealed[:100], []byte(" 1\n")) {
		t.Errorf("the recipients changed: got header %q", sealed[:100])
	}
}

func TestRecipientsString(t *testing.T) {
	_, strong, _ := Generate(true)
	got := recipients(t, strong).String()
	if want := strong[:20] + "…" + strong[len(strong)-6:]; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	_, classic, _ := Generate(false)
	if got := fmt.Sprintf("%d|%#v", recipients(t, classic), recipients(t, classic)); strings.Contains(got, "0x") || strings.Count(got, "age1") != 2 {
		t.Errorf("got %q, want the short text twice", got)
	}
}
