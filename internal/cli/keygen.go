package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mbwrap/mbwrap/encrypt"
)

type keygenOptions struct {
	common
	PostQuantum bool
	PassFile    string
	Passphrase  string
}

func newKeygen(env *Env) *command {
	o := &keygenOptions{}
	return &command{
		name: "keygen", summary: "make a key to encrypt backups with", args: "FILE", least: 1, most: 1,
		about: "Writes a new age identity, the private key, to FILE, which only you can read, and prints its recipient, the " +
			"public key. Backups that are encrypted to the recipient can be read with the identity and with nothing else.\n\n" +
			"The database host needs the recipient only: keep FILE off it, in two places, and try it before you need it. " +
			"When it is lost, so is every backup that was encrypted to no other recipient.",
		examples: []string{
			"mbwrap keygen ~/backup.key",
			"mbwrap keygen --post-quantum /media/stick/backup.key # safe from the quantum computers of the future, too",
			"mbwrap backup --repo /backups --encrypt-to age1… # with what keygen printed",
		},
		exits: []int{exitSink},
		settings: []*setting{
			toggle(&o.PostQuantum, "post-quantum", "make a hybrid post-quantum key (needs age 1.3 to open backups without mbwrap)"),
			text(&o.PassFile, "passphrase-file", "FILE", "protect the identity with the passphrase that is the first line of this file"),
			secret(&o.Passphrase, "passphrase", "protect the identity with this passphrase"),
		},
		common: &o.common,
		run:    func(_ context.Context, in input) error { return runKeygen(o, env, in.arg(0)) },
	}
}

// keygenJSON is what --json prints.
type keygenJSON struct {
	File      string `json:"file"`
	Recipient string `json:"recipient"`
}

func runKeygen(o *keygenOptions, env *Env, name string) error {
	identity, recipient, err := encrypt.Generate(o.PostQuantum)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("# created: %s\n# public key: %s\n%s\n", env.Now().Format(time.RFC3339), recipient, identity)
	data := []byte(text)
	pass, err := passphrase(o.PassFile, o.Passphrase)
	if err != nil {
		return err
	}
	if pass != "" {
		if data, err = sealText(data, pass); err != nil {
			return err
		}
	}
	if err := writeKey(name, data); err != nil {
		return err
	}
	env.notef("wrote the identity to %s: keep it off the database host, in two places; without it no backup can be read", name)
	if o.JSON {
		return writeJSON(env.Stdout, keygenJSON{name, recipient})
	}
	fmt.Fprintln(env.Stdout, recipient)
	return nil
}

// sealText encrypts data with a passphrase.
func sealText(data []byte, pass string) ([]byte, error) {
	to, err := encrypt.Passphrase(pass)
	if err != nil {
		return nil, err
	}
	var sealed bytes.Buffer
	w, err := to.Seal(&sealed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close() // writes the last part
	return sealed.Bytes(), err
}

// writeKey makes a new file that its owner alone can read, and sees it on the disk: a key that a power cut takes away has
// backups encrypted to it by then.
func writeKey(name string, data []byte) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return &usageError{err: errorf("%s exists already", name), hint: "is it a key in use? mbwrap overwrites none: choose another name"}
	}
	if err != nil {
		return &usageError{err: errorf("write the identity: %w", err), hint: "is the directory there, and may you write to it?"}
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errorf("write the identity: %w", errors.Join(err, os.Remove(name)))
		}
	}()
	if err := f.Chmod(0o600); err != nil { // whatever the umask took away or an ACL gave
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
}

// syncDir makes the names in a directory durable.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
