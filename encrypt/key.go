package encrypt

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits of a sealed key, in bytes: what age allows for a header, and room for the key and comments.
const (
	maxKeyFile  = 4 << 20
	maxKeyPlain = 64 << 10
)

// Key is the identity of one backup, made for it: everything in the backup is sealed with it. Its recipient is told to
// nobody, so that only who holds the key can make a file that it opens. It never changes, may be used by several
// goroutines at once, and no fmt verb prints it. The zero value is of no use.
type Key struct{ secret func() *secret } // a function, because no fmt verb looks into one

type secret struct {
	text       string // the line of an identity file
	identities *Identities
	recipients *Recipients
}

// NewKey makes a new key. A backup with post-quantum recipients has a post-quantum key, or it would be as weak as it.
func NewKey(postQuantum bool) (*Key, error) {
	text, _, err := Generate(postQuantum)
	if err != nil {
		return nil, err
	}
	return parseKey(text)
}

// parseKey makes a key of the line of an identity file.
func parseKey(text string) (*Key, error) {
	one, err := parseIdentity(text, PluginUI{})
	if err != nil {
		return nil, err
	}
	if one.rank != rankNative {
		return nil, errors.New("not an age identity")
	}
	recipients, err := ParseRecipients(one.recipient)
	if err != nil {
		return nil, err
	}
	s := &secret{text, newIdentities([]identity{one}), recipients}
	return &Key{func() *secret { return s }}, nil
}

// SealTo returns the key as an age identity file, encrypted to r: age -d turns it into a file that age -d -i takes.
func (k *Key) SealTo(r *Recipients) ([]byte, error) {
	var out bytes.Buffer
	w, err := r.Seal(&out)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(w, keyHead+k.secret().text+"\n"); err != nil {
		return nil, fmt.Errorf("seal key: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("seal key: %w", err)
	}
	return out.Bytes(), nil
}

const keyHead = "# The identity of one backup. It opens that backup's files:  age -d -i THIS FILE\n"

// OpenKey opens what SealTo made, binary or armoured. Errors are those of Identities.Open; a file that opens and holds
// anything but one age identity matches ErrDamaged.
func OpenKey(sealed []byte, ids *Identities) (*Key, error) {
	if len(sealed) > maxKeyFile {
		return nil, damaged(nil, "a key of %d bytes is too long", len(sealed))
	}
	r, err := ids.Open(bytes.NewReader(sealed))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxKeyPlain+1))
	if err != nil {
		return nil, err
	}
	if len(plain) > maxKeyPlain {
		return nil, damaged(nil, "the key's content is longer than %d bytes", maxKeyPlain)
	}
	return readKey(string(plain))
}

// readKey finds the one identity in an identity file.
func readKey(text string) (*Key, error) {
	var key *Key
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		one, err := parseKey(line)
		if err != nil || key != nil {
			return nil, damaged(nil, "what is in the key's file is not one age identity")
		}
		key = one
	}
	if key == nil {
		return nil, damaged(nil, "the key's file is empty")
	}
	return key, nil
}

// PostQuantum tells whether the key is a post-quantum one.
func (k *Key) PostQuantum() bool { return k.secret().recipients.PostQuantum() }

// Seal begins an age file that only the key opens; see Recipients.Seal.
func (k *Key) Seal(w io.Writer) (io.WriteCloser, error) { return k.secret().recipients.Seal(w) }

// Open is Identities.Open with the key. A file that was sealed with another key can't be told from one with a damaged
// header: it matches ErrDamaged, never ErrNoMatch.
func (k *Key) Open(r io.Reader) (io.Reader, error) {
	plain, err := k.secret().identities.Open(r)
	return plain, ownError(err)
}

// OpenAt is Identities.OpenAt with the key; errors as those of Open.
func (k *Key) OpenAt(r io.ReaderAt, size int64) (*Plain, error) {
	p, err := k.secret().identities.OpenAt(r, size)
	return p, ownError(err)
}

// OpenFrontAt is Identities.OpenFrontAt with the key; errors as those of Open.
func (k *Key) OpenFrontAt(r io.ReaderAt, size int64) (*Plain, error) {
	p, err := k.secret().identities.OpenFrontAt(r, size)
	return p, ownError(err)
}

// ownError takes a file that the backup's own key does not open for a damaged one.
func ownError(err error) error {
	if errors.Is(err, ErrNoMatch) {
		return damaged(nil, "it was not sealed with this backup's key, or its header is changed")
	}
	return err
}

// MAC returns 32 bytes that only who holds the key can make or check: HMAC-SHA256 of data, under a key that HKDF-SHA256
// derives from the identity, as its line stands in an identity file, without salt and with purpose as info. Compare
// with hmac.Equal.
func (k *Key) MAC(purpose string, data []byte) []byte {
	key, err := hkdf.Key(sha256.New, []byte(k.secret().text), nil, purpose, sha256.Size)
	if err != nil {
		panic("encrypt: internal error: derive MAC key: " + err.Error()) // only for lengths that HKDF does not have
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(data)
	return mac.Sum(nil)
}

// String tells nothing of the key.
func (k *Key) String() string { return "backup key" }

// Format prints what String returns, whatever the verb.
func (k *Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }
