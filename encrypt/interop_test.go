package encrypt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age/armor"

	"github.com/mbwrap/mbwrap/internal/testenv"
)

func needAge(t *testing.T) string { return testenv.Need(t, "age") }

// currentAge builds the age program of the version that this module uses, as a module of its own: it needs more modules
// than we do.
func currentAge(t *testing.T) string {
	t.Helper()
	goProgram := testenv.Need(t, "go")
	dir, err := exec.Command(goProgram, "list", "-m", "-f", "{{.Dir}}", "filippo.io/age").Output()
	if err != nil {
		testenv.Missing(t, "age-current", "its source is not in the module cache")
	}
	program := filepath.Join(t.TempDir(), "age")
	build := exec.Command(goProgram, "build", "-C", strings.TrimSpace(string(dir)), "-o", program, "./cmd/age")
	build.Env = append(os.Environ(), "GOTOOLCHAIN=local", "GOFLAGS=-buildvcs=false", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		testenv.Missing(t, "age-current", fmt.Sprintf("can't be built: %v: %.300s", err, out))
	}
	return program
}

// run runs a program and returns what it prints; stdin may be nil.
func run(t *testing.T, stdin []byte, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", filepath.Base(program), strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

// onTerminal runs a command line on a terminal of its own, whose keyboard types the given lines.
func onTerminal(t *testing.T, typed, line string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Need(t, "script"), "-qec", line, os.DevNull)
	cmd.Stdin = strings.NewReader(typed)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

func write(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKeyOpensWithAge is the way to the data without this program: age -d -i mine key.age > k; age -d -i k data.
func TestKeyOpensWithAge(t *testing.T) { checkKeyOpens(t, needAge(t), false) }

// TestCurrentAge is the same with the current program, which knows post-quantum keys, and the other way round.
func TestCurrentAge(t *testing.T) {
	program := currentAge(t)
	checkKeyOpens(t, program, false)
	checkKeyOpens(t, program, true)
	secret, public, _ := Generate(true)
	plain := noise(chunkSize+1, 23)
	wantOpens(t, identities(t, secret), run(t, plain, program, "-r", public), plain)
	wantOpens(t, identities(t, secret), run(t, plain, program, "-a", "-r", public), plain)
}

func checkKeyOpens(t *testing.T, program string, postQuantum bool) {
	t.Helper()
	dir := t.TempDir()
	secret, public, err := Generate(postQuantum)
	if err != nil {
		t.Fatal(err)
	}
	key := newKey(t, postQuantum)
	file, err := key.SealTo(recipients(t, public))
	if err != nil {
		t.Fatal(err)
	}
	mine, keyFile := write(t, dir, "mine", []byte(secret+"\n")), write(t, dir, "key.age", file)
	k := write(t, dir, "k", run(t, nil, program, "-d", "-i", mine, keyFile))
	for _, size := range []int{0, 1, chunkSize, 2*chunkSize + 5} {
		plain := noise(size, 21)
		data := write(t, dir, "data.age", sealAll(t, key, plain))
		if got := run(t, nil, program, "-d", "-i", k, data); !bytes.Equal(got, plain) {
			t.Errorf("%d bytes: age gives %d other bytes", size, len(got))
		}
	}
}

func TestAgeSealsForUs(t *testing.T) {
	program := needAge(t)
	keygen := testenv.Need(t, "age-keygen")
	identity := run(t, nil, keygen)
	ids := identities(t, string(identity))
	if len(ids.Recipients()) != 1 || !bytes.Contains(identity, []byte("# public key: "+ids.Recipients()[0]+"\n")) {
		t.Fatalf("got recipients %q, want the one that age-keygen names", ids.Recipients())
	}
	_, other, _ := Generate(false)
	for _, size := range []int{0, 1, chunkSize, 2*chunkSize + 5} {
		plain := noise(size, 22)
		wantOpens(t, ids, run(t, plain, program, "-r", other, "-r", ids.Recipients()[0]), plain)
		armoured := run(t, plain, program, "-a", "-r", ids.Recipients()[0])
		if !bytes.HasPrefix(armoured, []byte(armor.Header)) {
			t.Fatalf("age -a wrote %.40q", armoured)
		}
		wantOpens(t, ids, armoured, plain)
	}
}

// TestPassphraseWithAge: passphrases both ways, and an identity file under one as age -p makes it. age asks on a
// terminal only, and its passphrases cost a second each.
func TestPassphraseWithAge(t *testing.T) {
	program, dir := needAge(t), t.TempDir()
	to, _ := passphrases(t, "correct horse")
	ours, opened := write(t, dir, "ours.age", sealAll(t, to, []byte("by us"))), filepath.Join(dir, "opened")
	onTerminal(t, "correct horse\n", fmt.Sprintf("%s -d -o %s %s", program, opened, ours))
	if got, err := os.ReadFile(opened); err != nil || string(got) != "by us" {
		t.Errorf("age opened %q, error %v, want what we sealed", got, err)
	}
	secret, public, _ := Generate(false)
	identity, locked := write(t, dir, "identity", []byte(secret+"\n")), filepath.Join(dir, "locked.age")
	onTerminal(t, "correct horse\ncorrect horse\n", fmt.Sprintf("%s -p -a -o %s %s", program, locked, identity))
	file, err := os.ReadFile(locked)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := ReadIdentities(bytes.NewReader(file), IdentityOptions{Passphrase: func() (string, error) { return "correct horse", nil }})
	if err != nil {
		t.Fatal(err)
	}
	wantOpens(t, ids, sealAll(t, recipients(t, public), []byte("x")), []byte("x"))
}

// sshKeygen makes a key pair and returns the private key's path, and both halves.
func sshKeygen(t *testing.T, passphrase string, args ...string) (path string, private []byte, public string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "id")
	args = append([]string{"-q", "-a", "1", "-N", passphrase, "-C", "operator@example", "-f", path}, args...)
	run(t, nil, testenv.Need(t, "ssh-keygen"), args...)
	private, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return path, private, strings.TrimSpace(string(text))
}

func TestSSHKeys(t *testing.T) {
	program := needAge(t)
	for _, c := range []struct {
		name, passphrase string
		args             []string
	}{
		{"ed25519", "", []string{"-t", "ed25519"}},
		{"rsa", "", []string{"-t", "rsa", "-b", "2048"}},
		{"rsa, old format", "", []string{"-t", "rsa", "-b", "2048", "-m", "PEM"}},
		{"ed25519 under a passphrase", "correct horse", []string{"-t", "ed25519"}},
		{"rsa under a passphrase", "correct horse", []string{"-t", "rsa", "-b", "2048"}},
		{"rsa under a passphrase, old format", "correct horse", []string{"-t", "rsa", "-b", "2048", "-m", "PEM"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, private, public := sshKeygen(t, c.passphrase, c.args...)
			to := recipients(t, public)
			if got := to.Strings()[0]; got != public || to.PostQuantum() {
				t.Errorf("got %q, want the public key with its comment", got)
			}
			asked := 0
			o := IdentityOptions{Passphrase: func() (string, error) { asked++; return c.passphrase, nil }}
			ids, err := ReadIdentities(bytes.NewReader(private), o)
			if err != nil {
				t.Fatal(err)
			}
			other, _ := pair(t, false)
			if _, err := openAll(ids, sealAll(t, other, nil)); !errors.Is(err, ErrNoMatch) || asked > 0 {
				t.Errorf("file for another: got error %v and asked %d times, want ErrNoMatch and not to be asked", err, asked)
			}
			sealed := sealAll(t, to, []byte("by us"))
			wantOpens(t, ids, sealed, []byte("by us"))
			wantOpens(t, ids, run(t, []byte("by age"), program, "-r", public), []byte("by age"))
			if want := min(1, len(c.passphrase)); asked != want {
				t.Errorf("asked %d times, want %d", asked, want)
			}
			if c.passphrase == "" {
				if got := run(t, sealed, program, "-d", "-i", path); string(got) != "by us" {
					t.Errorf("age opened %q, want what we sealed", got)
				}
				return
			}
			checkWrongSSHPassphrase(t, private, sealed)
		})
	}
}

func checkWrongSSHPassphrase(t *testing.T, private, sealed []byte) {
	t.Helper()
	for want, ask := range map[string]func() (string, error){
		"the passphrase is wrong, or the key is damaged": func() (string, error) { return "wrong horse", nil },
		"there is nobody to ask":                         nil,
	} {
		ids, err := ReadIdentities(bytes.NewReader(private), IdentityOptions{Passphrase: ask})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := openAll(ids, sealed); !errors.Is(err, ErrNoMatch) || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want ErrNoMatch with %q", err, want)
		}
	}
}

func TestSSHKeysThatAgeDoesNotKnow(t *testing.T) {
	for _, passphrase := range []string{"", "correct horse"} {
		for _, format := range []string{"RFC4716", "PEM"} {
			_, private, public := sshKeygen(t, passphrase, "-t", "ecdsa", "-m", format)
			if _, err := ParseRecipients(public); err == nil || !strings.Contains(err.Error(), "unknown kind of recipient") {
				t.Errorf("public key: got error %v, want one that says unknown", err)
			}
			o := IdentityOptions{Passphrase: func() (string, error) { return passphrase, nil }}
			ids, err := ReadIdentities(bytes.NewReader(private), o)
			if err == nil { // an old format tells only behind its passphrase
				_, _, other := sshKeygen(t, "", "-t", "ed25519")
				_, err = openAll(ids, sealAll(t, recipients(t, other), nil))
			}
			if err == nil || !strings.Contains(err.Error(), "of a kind that age does not know") {
				t.Errorf("%s, passphrase %q: got error %v, want one that says unknown", format, passphrase, err)
			}
		}
	}
	if _, _, public := sshKeygen(t, "", "-t", "rsa", "-b", "1024"); public != "" {
		if _, err := ParseRecipients(public); err == nil || !strings.Contains(err.Error(), "ssh-rsa from 2048 bits") {
			t.Errorf("short RSA key: got error %v, want one that says how long", err)
		}
	}
}
