package encrypt

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
	"filippo.io/age/plugin"
)

// maxIdentityFile bounds an identity file, in bytes, encrypted or not.
const maxIdentityFile = 1 << 20

// Identities open files. They hold secrets, which no fmt verb prints. They may be used by several goroutines at once;
// a passphrase is asked for once and then remembered, also that there was none or that it was wrong.
type Identities struct{ list func() []identity } // a function, because no fmt verb looks into one

type identity struct {
	key       age.Identity
	rank      int    // the cheaper and the quieter are tried first
	recipient string // public half, if known without asking
}

// Ranks, in the order in which identities are tried.
const (
	rankNative = iota
	rankPassphrase
	rankSSH
	rankLocked // asks for a passphrase
	rankPlugin // may ask for a touch
)

// IdentityOptions is what identities may need from the operator, and how they ask.
type IdentityOptions struct {
	// Passphrase returns the passphrase of the file, if it has one. It is asked at most once, when the file is needed:
	// not before another identity failed. nil: such a file can't be used.
	Passphrase func() (string, error)
	// UI is for plugins.
	UI PluginUI
}

// ReadIdentities reads one file of identities: age's own (AGE-SECRET-KEY-…, AGE-PLUGIN-…, one in a line, lines that
// begin with # are comments), an OpenSSH or PEM private key (Ed25519, RSA), and either of them under a passphrase: an
// age file, binary or armoured, as age -p makes it, or what ssh-keygen makes. Errors name the line, never its content.
func ReadIdentities(r io.Reader, o IdentityOptions) (*Identities, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxIdentityFile+1))
	if err != nil {
		return nil, fmt.Errorf("read identity file: %w", err)
	}
	if len(data) > maxIdentityFile {
		return nil, fmt.Errorf("identity file is longer than %d bytes", maxIdentityFile)
	}
	if Sealed(data) {
		return lockedFile(data, o)
	}
	return parseIdentities(data, o)
}

// parseIdentities understands an identity file that is not an age file.
func parseIdentities(data []byte, o IdentityOptions) (*Identities, error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN")) {
		return sshIdentities(data, o)
	}
	var list []identity
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxIdentityFile+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		one, err := parseIdentity(line, o.UI)
		if err != nil {
			return nil, fmt.Errorf("identity file, line %d: %w", n, err)
		}
		list = append(list, one)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read identity file: %w", err)
	}
	if len(list) == 0 {
		return nil, errors.New("identity file has no identity")
	}
	return newIdentities(list), nil
}

// parseIdentity understands one line. No error of age is passed on: it could repeat the line.
func parseIdentity(line string, ui PluginUI) (identity, error) {
	malformed := errors.New("the identity is malformed")
	switch {
	case strings.HasPrefix(line, "AGE-SECRET-KEY-1"):
		key, err := age.ParseX25519Identity(line)
		if err != nil {
			return identity{}, malformed
		}
		return identity{key, rankNative, key.Recipient().String()}, nil
	case strings.HasPrefix(line, "AGE-SECRET-KEY-PQ-1"):
		key, err := age.ParseHybridIdentity(line)
		if err != nil {
			return identity{}, malformed
		}
		return identity{key, rankNative, key.Recipient().String()}, nil
	case strings.HasPrefix(line, "AGE-PLUGIN-"):
		key, err := plugin.NewIdentity(line, ui.client())
		if err != nil {
			return identity{}, malformed
		}
		return identity{key: &guarded{key: key}, rank: rankPlugin}, nil
	case strings.HasPrefix(line, "age1"), strings.HasPrefix(line, "ssh-"):
		return identity{}, errors.New("this is a recipient, the public half: an identity is needed to open")
	}
	return identity{}, errors.New("unknown kind of identity")
}

// newIdentities puts identities into the order in which they are tried.
func newIdentities(list []identity) *Identities {
	slices.SortStableFunc(list, func(a, b identity) int { return a.rank - b.rank })
	return &Identities{func() []identity { return list }}
}

// PassphraseIdentity makes the identity that is the knowledge of a passphrase, taken as it is.
func PassphraseIdentity(passphrase string) (*Identities, error) {
	key, err := scryptIdentity(passphrase)
	if err != nil {
		return nil, err
	}
	return newIdentities([]identity{{key: key, rank: rankPassphrase}}), nil
}

func scryptIdentity(passphrase string) (*age.ScryptIdentity, error) {
	key, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, errors.New("the passphrase is empty")
	}
	key.SetMaxWorkFactor(maxWorkFactor)
	return key, nil
}

// With returns the identities of both; either may be nil.
func (ids *Identities) With(more *Identities) *Identities {
	return newIdentities(slices.Concat(ids.all(), more.all()))
}

// Empty tells whether there is no identity at all. ids may be nil.
func (ids *Identities) Empty() bool { return len(ids.all()) == 0 }

// Recipients returns the public halves of the identities, of those whose halves are known without asking anybody.
func (ids *Identities) Recipients() []string {
	var texts []string
	for _, one := range ids.all() {
		if one.recipient != "" {
			texts = append(texts, one.recipient)
		}
	}
	return texts
}

func (ids *Identities) all() []identity {
	if ids == nil || ids.list == nil {
		return nil
	}
	return ids.list()
}

// keys returns the identities as age wants them.
func (ids *Identities) keys() []age.Identity {
	keys := make([]age.Identity, 0, len(ids.all()))
	for _, one := range ids.all() {
		keys = append(keys, one.key)
	}
	return keys
}

// String tells how many there are.
func (ids *Identities) String() string { return fmt.Sprintf("%d identities", len(ids.all())) }

// Format prints what String returns, whatever the verb.
func (ids *Identities) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, ids.String()) }

// binary returns an age file without its armour, if it has any.
func binary(data []byte) io.Reader {
	if armoured(data) {
		return armor.NewReader(bytes.NewReader(data))
	}
	return bytes.NewReader(data)
}
