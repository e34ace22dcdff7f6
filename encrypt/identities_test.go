package encrypt

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"filippo.io/age"
	"filippo.io/age/plugin"
)

func TestReadIdentities(t *testing.T) {
	secret, public, _ := Generate(false)
	strongSecret, strong, _ := Generate(true)
	card := plugin.EncodeIdentity("card", []byte("x"))
	for _, c := range []struct {
		name, file string
		want       []string // public halves
		number     int
		err        string
	}{
		{"one", secret, []string{public}, 1, ""},
		{"as age-keygen writes it", "# created: 2026-11-30\n# public key: " + public + "\n" + secret + "\n", []string{public}, 1, ""},
		{"post-quantum", strongSecret + "\n", []string{strong}, 1, ""},
		{"both, white space", " " + secret + " \r\n\r\n" + strongSecret + "\r\n", []string{public, strong}, 2, ""},
		{"plugin", card, nil, 1, ""},
		{"plugin first is tried last", card + "\n" + secret, []string{public}, 2, ""},
		{"nothing", "", nil, 0, "has no identity"},
		{"comments only", "# none\n", nil, 0, "has no identity"},
		{"recipient", "#\n" + public, nil, 0, "line 2: this is a recipient"},
		{"ssh recipient", sshEd25519, nil, 0, "line 1: this is a recipient"},
		{"typing error", secret[:30] + "B" + secret[31:], nil, 0, "line 1: the identity is malformed"},
		{"cut off", "#\n\n" + strongSecret[:40], nil, 0, "line 3: the identity is malformed"},
		{"bad plugin", card[:len(card)-1], nil, 0, "line 1: the identity is malformed"},
		{"other text", "hunter2", nil, 0, "line 1: unknown kind of identity"},
		{"small letters", strings.ToLower(secret), nil, 0, "unknown kind of identity"},
		{"too long", strings.Repeat("#\n", maxIdentityFile), nil, 0, "longer than 1048576 bytes"},
		{"other PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", nil, 0, "private key is malformed or of a kind"},
		{"long PEM", "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("A", maxSSHKey), nil, 0, "longer than 16384 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ids, err := ReadIdentities(strings.NewReader(c.file), IdentityOptions{})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := ids.Recipients(); !slices.Equal(got, c.want) {
				t.Errorf("Recipients: got %q, want %q", got, c.want)
			}
			if got := len(ids.all()); got != c.number || ids.Empty() {
				t.Errorf("got %d identities, want %d", got, c.number)
			}
		})
	}
	lost := errors.New("disk gone")
	if _, err := ReadIdentities(iotest.ErrReader(lost), IdentityOptions{}); !errors.Is(err, lost) {
		t.Errorf("got error %v, want %v", err, lost)
	}
}

func TestNoIdentity(t *testing.T) {
	to, _ := pair(t, false)
	sealed := sealAll(t, to, []byte("x"))
	for name, ids := range map[string]*Identities{"nil": nil, "zero": {}, "both": (*Identities)(nil).With(nil)} {
		if !ids.Empty() {
			t.Errorf("%s: Empty: got false", name)
		}
		for _, way := range ways {
			_, err := way.read(ids, sealed)
			if want := "no identity is given (the file is for: age1… (X25519))"; !errors.Is(err, ErrNoMatch) || err.Error() != want {
				t.Errorf("%s, %s: got error %v, want %s", name, way.name, err, want)
			}
		}
		if _, err := openAll(ids, []byte("hello")); !errors.Is(err, ErrNotSealed) {
			t.Errorf("%s: got error %v, want ErrNotSealed", name, err)
		}
	}
}

// TestWrongIdentitySaysForWhom: the header tells the kinds of its recipients.
func TestWrongIdentitySaysForWhom(t *testing.T) {
	_, a, _ := Generate(false)
	_, b, _ := Generate(false)
	strong, strongIDs := pair(t, true)
	word, wordIDs := passphrases(t, "correct horse")
	_, wrongIDs := pair(t, false)
	_, wrongWord := passphrases(t, "wrong horse")
	for _, c := range []struct {
		name string
		to   *Recipients
		ids  *Identities
		want string
	}{
		{"X25519 and SSH", recipients(t, a, sshEd25519, b), wrongIDs, "no identity fits (the file is for: 2 × age1… (X25519), ssh-ed25519)"},
		{"post-quantum", strong, wrongIDs.With(wordIDs), "no identity fits (the file is for: age1pq1… (post-quantum))"},
		{"passphrase", word, strongIDs, "no identity fits: the file needs a passphrase, and another one (the file is for: a passphrase)"},
		{"wrong passphrase", word, wrongWord, "no identity fits: the file needs a passphrase, and another one (the file is for: a passphrase)"},
	} {
		sealed := sealAll(t, c.to, nil)
		for _, way := range ways {
			_, err := way.read(c.ids, sealed)
			if !errors.Is(err, ErrNoMatch) || errors.Is(err, ErrDamaged) || err.Error() != c.want {
				t.Errorf("%s, %s: got error %v, want %s", c.name, way.name, err, c.want)
			}
		}
	}
}

func TestKindsOf(t *testing.T) {
	for _, c := range []struct {
		stanzas, want []string
	}{
		{nil, nil},
		{[]string{"X25519", "h-grease", "-grease", "ssh-rsa"}, []string{"age1… (X25519)", "ssh-rsa"}},
		{[]string{"evil\x1b[31m"}, []string{`"evil [31m"`}},
		{[]string{strings.Repeat("x", 1000)}, []string{`"` + strings.Repeat("x", 32) + `"`}},
		{[]string{"a", "b", "c", "d", "e", "f", "g", "h"}, []string{`"a"`, `"b"`, `"c"`, `"d"`, `"e"`, `"f"`, "…"}},
	} {
		if got := kindsOf(c.stanzas); !slices.Equal(got, c.want) {
			t.Errorf("kindsOf(%q): got %q, want %q", c.stanzas, got, c.want)
		}
	}
}

// lockedIdentity is an identity file under a passphrase.
func lockedIdentity(t testing.TB, passphrase, content string) []byte {
	t.Helper()
	to, _ := passphrases(t, passphrase)
	return sealAll(t, to, []byte(content))
}

func TestLockedIdentityFile(t *testing.T) {
	secret, public, _ := Generate(false)
	sealed := sealAll(t, recipients(t, public), []byte("x"))
	gone := context.Canceled
	good := lockedIdentity(t, "correct horse", "# mine\n"+secret+"\n")
	damaged := bytes.Clone(good)
	damaged[len(damaged)-1] ^= 1
	dear := bytes.Replace(good, []byte(" 2\n"), []byte(" 21\n"), 1)
	for _, c := range []struct {
		name string
		file []byte
		ask  func() (string, error)
		want string // part of the error, "" for none
	}{
		{"binary", good, func() (string, error) { return "correct horse", nil }, ""},
		{"armoured", armour(t, good), func() (string, error) { return "correct horse", nil }, ""},
		{"wrong passphrase", good, func() (string, error) { return "wrong horse", nil }, "the passphrase is wrong"},
		{"line feed", good, func() (string, error) { return "correct horse\n", nil }, "the passphrase is wrong"},
		{"empty passphrase", good, func() (string, error) { return "", nil }, "the passphrase is empty"},
		{"nobody to ask", good, nil, "there is nobody to ask"},
		{"no answer", good, func() (string, error) { return "", gone }, "context canceled"},
		{"damaged", damaged, func() (string, error) { return "correct horse", nil }, "its content"},
		{"work factor too high", dear, func() (string, error) { return "correct horse", nil }, "work factor too large"},
		{"no identity inside", lockedIdentity(t, "p", "# none"), func() (string, error) { return "p", nil }, "has no identity"},
		{"encrypted twice", lockedIdentity(t, "p", string(good)), func() (string, error) { return "p", nil }, "another encrypted file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			o := IdentityOptions{}
			if c.ask != nil {
				o.Passphrase = func() (string, error) { asked++; return c.ask() }
			}
			ids, err := ReadIdentities(bytes.NewReader(c.file), o)
			if err != nil {
				t.Fatal(err)
			}
			if asked > 0 || len(ids.Recipients()) > 0 {
				t.Error("asked before the file was needed")
			}
			for range 2 {
				got, err := openAll(ids, sealed)
				if c.want == "" && (err != nil || string(got) != "x") {
					t.Errorf("got %q and error %v, want what was sealed", got, err)
				}
				if c.want != "" && (!errors.Is(err, ErrNoMatch) || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("got error %v, want ErrNoMatch alone, with %q", err, c.want)
				}
				if c.name == "no answer" && !errors.Is(err, gone) {
					t.Errorf("got error %v, want %v to be found in it", err, gone)
				}
			}
			if c.ask != nil && asked != 1 {
				t.Errorf("asked %d times, want once", asked)
			}
		})
	}
}

func TestLockedIdentityFileThatIsRefused(t *testing.T) {
	to, _ := pair(t, false)
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"for a recipient", sealAll(t, to, []byte("x")), "is encrypted to age1… (X25519) and not to a passphrase"},
		{"header cut off", lockedIdentity(t, "p", "x")[:50], "encrypted identity file: encrypted data is damaged"},
		{"armour is broken", []byte("-----BEGIN AGE ENCRYPTED FILE-----\n!\n"), "encrypted identity file: encrypted data is damaged"},
	} {
		_, err := ReadIdentities(bytes.NewReader(c.file), IdentityOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// TestNativeIdentitiesFirst: nobody is asked for anything when another identity fits.
func TestNativeIdentitiesFirst(t *testing.T) {
	secret, public, _ := Generate(false)
	other, _, _ := Generate(false)
	asked := false
	locked, err := ReadIdentities(bytes.NewReader(lockedIdentity(t, "p", other)), IdentityOptions{
		Passphrase: func() (string, error) { asked = true; return "p", nil }})
	if err != nil {
		t.Fatal(err)
	}
	sealed := sealAll(t, recipients(t, public), []byte("x"))
	wantOpens(t, locked.With(identities(t, secret)), sealed, []byte("x"))
	if asked {
		t.Error("asked for a passphrase, want the other identity to be tried first")
	}
	if _, err := openAll(locked, sealed); !errors.Is(err, ErrNoMatch) || !asked {
		t.Errorf("got error %v and asked %v, want ErrNoMatch after asking", err, asked)
	}
}

// TestOneFailureHidesNoOther: an identity that can't be used does not keep the next one from being tried.
func TestOneFailureHidesNoOther(t *testing.T) {
	secret, public, _ := Generate(false)
	sealed := sealAll(t, recipients(t, public), []byte("x"))
	var all *Identities
	for _, passphrase := range []string{"wrong", "right"} {
		ids, err := ReadIdentities(bytes.NewReader(lockedIdentity(t, "right", secret)), IdentityOptions{
			Passphrase: func() (string, error) { return passphrase, nil }})
		if err != nil {
			t.Fatal(err)
		}
		all = all.With(ids)
	}
	wantOpens(t, all, sealed, []byte("x"))
	other, otherIDs := pair(t, false)
	_, err := openAll(all, sealAll(t, other, nil))
	if !errors.Is(err, ErrNoMatch) || !strings.Contains(err.Error(), "encrypted identity file: the passphrase is wrong") {
		t.Errorf("got error %v, want ErrNoMatch that tells of the wrong passphrase", err)
	}
	wantOpens(t, all.With(otherIDs), sealAll(t, other, []byte("y")), []byte("y"))
}

func TestIdentitiesByManyGoroutines(t *testing.T) {
	secret, public, _ := Generate(true)
	var asked atomic.Int32
	ids, err := ReadIdentities(bytes.NewReader(lockedIdentity(t, "p", secret)), IdentityOptions{
		Passphrase: func() (string, error) { asked.Add(1); return "p", nil }})
	if err != nil {
		t.Fatal(err)
	}
	sealed := sealAll(t, recipients(t, public), []byte("x"))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got, err := openAll(ids, sealed); err != nil || string(got) != "x" {
				t.Errorf("got %q and error %v, want what was sealed", got, err)
			}
		})
	}
	group.Wait()
	if got := asked.Load(); got != 1 {
		t.Errorf("asked %d times, want once", got)
	}
}

// TestHostileWorkFactor: a passphrase file can't make us compute for minutes.
func TestHostileWorkFactor(t *testing.T) {
	to, ids := passphrases(t, "p")
	sealed := sealAll(t, to, nil)
	for _, factor := range []string{"21", "30", "62", "999999999999999999999", "0", "-1", "02"} {
		changed := bytes.Replace(sealed, []byte(" 2\n"), []byte(" "+factor+"\n"), 1)
		if _, err := openAll(ids, changed); !errors.Is(err, ErrDamaged) {
			t.Errorf("work factor %s: got error %v, want ErrDamaged at once", factor, err)
		}
	}
	two := bytes.Replace(sealed, []byte("--- "), append(sealed[len(intro):bytes.Index(sealed, []byte("--- "))], "--- "...), 1)
	if _, err := openAll(ids, two); !errors.Is(err, ErrDamaged) {
		t.Errorf("two passphrases: got error %v, want ErrDamaged", err)
	}
}

// greasy is a recipient that adds what other programs add to keep readers tolerant.
type greasy struct{ age.Recipient }

func (g greasy) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	stanzas, err := g.Recipient.Wrap(fileKey)
	return append(stanzas, &age.Stanza{Type: "hello-grease", Args: []string{"x"}, Body: []byte("noise")}), err
}

func TestGreaseIsLeftAlone(t *testing.T) {
	to, ids := pair(t, false)
	list := []recipient{{text: "greasy", key: greasy{to.all()[0].key}}}
	wantOpens(t, ids, sealAll(t, newRecipients(list), []byte("x")), []byte("x"))
}
