package encrypt

import (
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"golang.org/x/crypto/ssh"
)

// maxSSHKey bounds an SSH private key, in bytes; one for RSA with 16,384 bits has about 13,000.
const maxSSHKey = 16 << 10

var errNobodyToAsk = errors.New("it needs a passphrase, and there is nobody to ask")

// guarded lets one goroutine at a time use an identity that keeps state or starts a process, and lets age go on to the
// next identity when this one fails for reasons of its own.
type guarded struct {
	mu  sync.Mutex
	key age.Identity
}

func (g *guarded) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fileKey, err := g.key.Unwrap(stanzas)
	return fileKey, troubled(err)
}

// locked are identities behind a passphrase. They are unlocked at most once; a failure stays.
type locked struct {
	wanted func([]*age.Stanza) bool // could these identities fit at all?
	unlock func() ([]age.Identity, error)
	once   sync.Once
	keys   []age.Identity
	err    error
}

func (l *locked) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	if l.wanted != nil && !l.wanted(stanzas) {
		return nil, age.ErrIncorrectIdentity
	}
	l.once.Do(func() { l.keys, l.err = l.unlock() })
	if l.err != nil {
		return nil, troubled(l.err)
	}
	var failed error = age.ErrIncorrectIdentity
	for _, key := range l.keys {
		fileKey, err := key.Unwrap(stanzas)
		if err == nil || !errors.Is(err, age.ErrIncorrectIdentity) {
			return fileKey, err
		}
		if _, ok := errors.AsType[*trouble](err); ok {
			failed = err
		}
	}
	return nil, failed
}

// ask gets the passphrase.
func (o IdentityOptions) ask() (string, error) {
	if o.Passphrase == nil {
		return "", errNobodyToAsk
	}
	return o.Passphrase()
}

// lockedFile makes identities of a file of identities that is itself an age file under a passphrase.
func lockedFile(data []byte, o IdentityOptions) (*Identities, error) {
	asked := &probe{}
	if _, err := age.Decrypt(binary(data), asked); !asked.seen {
		return nil, fmt.Errorf("encrypted identity file: %v", explain(err, "its header does not parse"))
	}
	if !slices.Equal(asked.types, []string{"scrypt"}) {
		return nil, fmt.Errorf("the identity file is encrypted to %s and not to a passphrase: decrypt it first",
			strings.Join(kindsOf(asked.types), ", "))
	}
	key := &locked{unlock: func() ([]age.Identity, error) {
		ids, err := unlockFile(data, o)
		if err != nil {
			return nil, fmt.Errorf("encrypted identity file: %w", err)
		}
		return ids.keys(), nil
	}}
	return newIdentities([]identity{{key: key, rank: rankLocked}}), nil
}

// unlockFile asks for the passphrase and reads what is behind it.
func unlockFile(data []byte, o IdentityOptions) (*Identities, error) {
	passphrase, err := o.ask()
	if err != nil {
		return nil, err
	}
	key, err := scryptIdentity(passphrase)
	if err != nil {
		return nil, err
	}
	r, err := age.Decrypt(binary(data), key)
	if errors.Is(err, age.ErrIncorrectIdentity) {
		return nil, errors.New("the passphrase is wrong")
	}
	if err != nil {
		return nil, notDamaged(explain(err, "its header"))
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, notDamaged(explain(err, "its content"))
	}
	if Sealed(plain) {
		return nil, errors.New("there is another encrypted file inside")
	}
	return parseIdentities(plain, o)
}

// notDamaged keeps the text of err only: a damaged identity file is no damage of what it should open.
func notDamaged(err error) error { return errors.New(err.Error()) }

// probe looks at the stanzas of a header and opens nothing.
type probe struct {
	seen  bool
	types []string
}

func (p *probe) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	p.seen = true
	for _, s := range stanzas {
		p.types = append(p.types, s.Type)
	}
	return nil, age.ErrIncorrectIdentity
}

// sshIdentities makes an identity of an SSH private key.
func sshIdentities(data []byte, o IdentityOptions) (*Identities, error) {
	if len(data) > maxSSHKey {
		return nil, fmt.Errorf("the SSH private key is longer than %d bytes", maxSSHKey)
	}
	key, err := agessh.ParseIdentity(data)
	if missing, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		key, err = lockedSSH(data, missing.PublicKey, o)
		if err != nil {
			return nil, err
		}
		return newIdentities([]identity{{key: key, rank: rankLocked}}), nil
	}
	if err != nil {
		return nil, errors.New("the private key is malformed or of a kind that age does not know (it knows SSH's ed25519 and rsa)")
	}
	return newIdentities([]identity{{key: key, rank: rankSSH}}), nil
}

// lockedSSH makes an identity of an SSH private key under a passphrase. Old formats don't tell their public half: they
// are asked for whenever a file has an SSH recipient.
func lockedSSH(data []byte, public ssh.PublicKey, o IdentityOptions) (age.Identity, error) {
	unlock := func() ([]age.Identity, error) {
		key, err := unlockSSH(data, o)
		if err != nil {
			return nil, fmt.Errorf("encrypted SSH key: %w", err)
		}
		return []age.Identity{key}, nil
	}
	if public == nil {
		return &locked{unlock: unlock, wanted: forSSH}, nil
	}
	fits, err := agessh.NewEncryptedSSHIdentity(public, data, func() ([]byte, error) { return nil, errAsked })
	if err != nil {
		return nil, errUnknownSSH
	}
	return &locked{unlock: unlock, wanted: func(stanzas []*age.Stanza) bool {
		_, err := fits.Unwrap(stanzas)
		return err != age.ErrIncorrectIdentity
	}}, nil
}

var (
	errAsked      = errors.New("asked") // never leaves this file
	errUnknownSSH = errors.New("the SSH private key is of a kind that age does not know (it knows ed25519 and rsa)")
)

func forSSH(stanzas []*age.Stanza) bool {
	return slices.ContainsFunc(stanzas, func(s *age.Stanza) bool { return s.Type == "ssh-rsa" || s.Type == "ssh-ed25519" })
}

// unlockSSH asks for the passphrase and makes an identity of the key behind it.
func unlockSSH(data []byte, o IdentityOptions) (age.Identity, error) {
	passphrase, err := o.ask()
	if err != nil {
		return nil, err
	}
	raw, err := ssh.ParseRawPrivateKeyWithPassphrase(data, []byte(passphrase))
	if err != nil {
		return nil, errors.New("the passphrase is wrong, or the key is damaged")
	}
	return sshIdentity(raw)
}

// sshIdentity makes an identity of a private key as package ssh returns it.
func sshIdentity(raw any) (age.Identity, error) {
	switch key := raw.(type) {
	case *ed25519.PrivateKey:
		return agessh.NewEd25519Identity(*key)
	case ed25519.PrivateKey:
		return agessh.NewEd25519Identity(key)
	case *rsa.PrivateKey:
		return agessh.NewRSAIdentity(key)
	}
	return nil, errUnknownSSH
}
