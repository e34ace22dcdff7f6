// Package encrypt seals and opens age files, https://age-encryption.org/v1: it is the one place that knows age,
// recipients and identities.
//
// A file goes to Recipients and is opened by Identities. A backup has a Key of its own: everything in it is sealed
// with the Key, and only the Key is sealed to the operators' recipients, so that new recipients touch one small file.
// What is written here any age program reads, and the other way round.
//
// The package never asks, prints or looks around: passphrases and the talk of plugins go through functions that the
// caller gives, and without them there is an error where others would wait for an answer. One exception is not ours to
// change: the code that starts a plugin looks for age-plugin-NAME in PATH, and the plugin is a process that may do
// what it likes.
//
// No secret is part of an error or of what the fmt verbs print of any type here.
package encrypt

import (
	"bytes"
	"errors"
	"fmt"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// What can go wrong, to be matched with errors.Is. An error of the place that is read or written is none of these and
// can be matched as itself.
var (
	// ErrNoMatch: no identity opens the file. The keys are missing or wrong, a passphrase is wrong or can't be had, a
	// plugin is missing or refused.
	ErrNoMatch = errors.New("no identity fits")
	// ErrMixed: recipients that age refuses to put into one file.
	ErrMixed = errors.New("recipients can't be mixed")
	// ErrDamaged: the file was changed, cut off or grew. Nothing that was read before the error is in doubt: every
	// 64 KiB chunk is proven before a byte of it is handed out.
	ErrDamaged = errors.New("encrypted data is damaged")
	// ErrNotSealed: this is not an age file. It matches ErrDamaged as well, because an age file whose first line is
	// damaged can't be told from it.
	ErrNotSealed = errors.New("not an age file")
)

const (
	magic   = "age-encryption.org/"
	intro   = magic + "v1\n"
	leading = 1024 // bytes of white space that may stand before armour, as many as age itself allows
)

// Sealed tells whether head, the first bytes of a file, is the beginning of an age file, binary or armoured. 64 bytes
// are enough, unless white space stands before the armour.
func Sealed(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) || armoured(head) }

// armoured tells whether head begins an armoured age file.
func armoured(head []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte(armor.Header))
}

// Generate makes a new identity (one line of an identity file, secret) and its recipient (public). A post-quantum one
// is age's hybrid of ML-KEM-768 and X25519: its files stay closed to a future quantum computer, and only age 1.3 and
// later knows it.
func Generate(postQuantum bool) (identity, recipient string, err error) {
	if postQuantum {
		i, err := age.GenerateHybridIdentity()
		if err != nil {
			return "", "", fmt.Errorf("generate post-quantum identity: %w", err)
		}
		return i.String(), i.Recipient().String(), nil
	}
	i, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", fmt.Errorf("generate identity: %w", err)
	}
	return i.String(), i.Recipient().String(), nil
}

// PluginUI is how plugins (age-plugin-NAME, often of a hardware key) and the operator talk. A nil function means that
// nobody is there: the plugin is told so and fails instead of waiting. The functions may be called from several
// goroutines when identities are used by several.
type PluginUI struct {
	// Message shows a message of the plugin.
	Message func(plugin, message string) error
	// Ask asks for a value, a secret one (a PIN) not to be shown.
	Ask func(plugin, prompt string, secret bool) (string, error)
	// Confirm asks to choose between yes and no; no may be empty: there is only one choice.
	Confirm func(plugin, prompt, yes, no string) (bool, error)
	// Wait is told, in a goroutine of its own, that the plugin has been silent for five seconds. It may wait for a
	// touch, and nothing here ends that.
	Wait func(plugin string)
}
