package cli

import (
	"context"
	"errors"
	"os"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/encrypt"
)

// keyFlags say what opens encrypted backups.
type keyFlags struct {
	Identities   []string
	Exposed      bool
	PassFile     string
	Passphrase   string
	opened       *encrypt.Identities // once they were read
	openedBefore bool
}

func (k *keyFlags) settings() []*setting {
	return []*setting{
		list(&k.Identities, "identity", "FILE", "the age identity or SSH key that opens the backup; may repeat"),
		toggle(&k.Exposed, "allow-exposed-key", "use identity files that others than their owner can read"),
		text(&k.PassFile, "passphrase-file", "FILE", "the file whose first line is the passphrase of the backup or the identity"),
		secret(&k.Passphrase, "passphrase", "the passphrase of the backup or the identity"),
	}
}

// sealFlags say whom a backup is encrypted to.
type sealFlags struct {
	To         []string
	ToFiles    []string
	PassFile   string
	Passphrase string
}

func (s *sealFlags) settings() []*setting {
	return []*setting{
		list(&s.To, "encrypt-to", "RECIPIENT", "encrypt to this age recipient (age1…) or SSH public key; may repeat"),
		list(&s.ToFiles, "encrypt-to-file", "FILE", "encrypt to every recipient in this file; may repeat"),
		text(&s.PassFile, "passphrase-file", "FILE", "encrypt with the passphrase that is the first line of this file"),
		secret(&s.Passphrase, "passphrase", "encrypt with this passphrase"),
	}
}

// recipients returns whom to encrypt to; nil if nothing asks for it.
func (s *sealFlags) recipients(ctx context.Context, env *Env) (*encrypt.Recipients, error) {
	lines := append([]string(nil), s.To...)
	for _, name := range s.ToFiles {
		more, err := readRecipients(name)
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
	}
	pass, err := passphrase(s.PassFile, s.Passphrase)
	switch {
	case err != nil:
		return nil, err
	case pass != "" && len(lines) > 0:
		return nil, &usageError{err: errorf("a passphrase and recipients: %w", encrypt.ErrMixed),
			hint: "age lets a passphrase stand alone: which of them is it to be?"}
	case pass != "":
		return encrypt.Passphrase(pass)
	case len(lines) == 0:
		return nil, nil
	}
	to, err := encrypt.ParseRecipients(lines...)
	if err != nil {
		return nil, &usageError{err: errorf("encrypt to: %w", err), hint: recipientHint(err)}
	}
	return to.WithUI(pluginUI(ctx, env)), nil
}

func recipientHint(err error) string {
	if errors.Is(err, encrypt.ErrMixed) {
		return "age keeps post-quantum and other recipients apart: do all of them have a post-quantum key (age1pq1…)?"
	}
	return "is it a public key, age1… or ssh-…? make one with: mbwrap keygen FILE"
}

// readRecipients reads a recipients file.
func readRecipients(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &usageError{err: errorf("--encrypt-to-file: %w", err), hint: "does the file exist, and may you read it?"}
	}
	defer f.Close() // opened for reading only
	lines, err := encrypt.ReadRecipients(f)
	if err == nil && len(lines) == 0 {
		err = errors.New("it names no recipient")
	}
	if err != nil {
		return nil, &usageError{err: errorf("--encrypt-to-file %s: %w", name, err),
			hint: "is it a list of public keys, one a line?"}
	}
	return lines, nil
}

// passphrase returns the passphrase of a file, or else the one that the environment or the configuration gave.
func passphrase(file, given string) (string, error) {
	if file == "" {
		return given, nil
	}
	pass, err := readSecretFile("passphrase", file)
	if err == nil && pass == "" {
		return "", usagef("passphrase file %q has an empty first line", file)
	}
	return pass, err
}

// identities returns what the flags give to open backups with; nil if there is nothing.
func (k *keyFlags) identities(ctx context.Context, env *Env) (*encrypt.Identities, error) {
	if k.openedBefore {
		return k.opened, nil
	}
	pass, err := passphrase(k.PassFile, k.Passphrase)
	if err != nil {
		return nil, err
	}
	var all *encrypt.Identities
	for _, name := range k.Identities {
		ids, err := k.read(ctx, env, source{name, pass})
		if err != nil {
			return nil, err
		}
		all = all.With(ids)
	}
	if pass != "" {
		ids, err := encrypt.PassphraseIdentity(pass)
		if err != nil {
			return nil, err
		}
		all = all.With(ids)
	}
	k.opened, k.openedBefore = all, true
	return all, nil
}

// source is an identity file, and the passphrase that was given for it, if any.
type source struct{ name, pass string }

// read reads one identity file.
func (k *keyFlags) read(ctx context.Context, env *Env, from source) (*encrypt.Identities, error) {
	name, pass := from.name, from.pass
	f, err := os.Open(name)
	if err != nil {
		return nil, &keyFileError{errorf("--identity: %w", err), "does the file exist, and may you read it?"}
	}
	defer f.Close() // opened for reading only
	info, err := f.Stat()
	if err != nil {
		return nil, errorf("--identity: %w", err)
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o077 != 0 && !k.Exposed {
		return nil, &keyFileError{errorf("identity file %q can be read by others (mode %04o)", name, mode.Perm()),
			"who else needs it? try: chmod 600 " + shellQuote(name) + "; or --allow-exposed-key"}
	}
	ids, err := encrypt.ReadIdentities(f, encrypt.IdentityOptions{
		Passphrase: func() (string, error) { return askPassphrase(ctx, env, name, pass) }, UI: pluginUI(ctx, env),
	})
	if err != nil {
		return nil, &keyFileError{errorf("identity file %q: %w", name, err), "is it a private key? make one with: mbwrap keygen FILE"}
	}
	return ids, nil
}

// keyFileError says that a key could not be had.
type keyFileError struct {
	err  error
	hint string
}

func (e *keyFileError) Error() string { return e.err.Error() }
func (e *keyFileError) Unwrap() error { return e.err }

// unlock opens the key of an encrypted backup with what the flags give. A manifest that the key does not vouch for is an
// error that matches catalog.ErrAltered; the backup is open then all the same.
func (k *keyFlags) unlock(ctx context.Context, env *Env, b *catalog.Backup) error {
	if b.Manifest == nil || !b.Locked() {
		if b.Manifest != nil && !b.Manifest.Encrypted && len(k.Identities) > 0 {
			env.notef("note: %s is not encrypted: anyone who can write to the repository could have made it", b.ID)
		}
		return nil
	}
	ids, err := k.identities(ctx, env)
	if err != nil {
		return err
	}
	return b.Unlock(ctx, ids)
}

// findOpen returns the backup that ref names, readable: its manifest is good and its key open.
func findOpen(ctx context.Context, env *Env, c *common, o openOptions) (*catalog.Backup, error) {
	b, err := findUsable(ctx, env, c, o.ref)
	if err != nil {
		return nil, err
	}
	return b, o.keys.unlock(ctx, env, b)
}

// openOptions say which backup is to be opened, and with what.
type openOptions struct {
	ref  string
	keys *keyFlags
}
