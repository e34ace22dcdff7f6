package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mbwrap/mbwrap/encrypt"
)

// purposes separate the codes of the two kinds of documents: one can't stand for the other.
const (
	manifestPurpose = "mbwrap manifest"
	rekeyPurpose    = "mbwrap key"
)

// KeyError says that an encrypted backup can't be read for want of a key.
type KeyError struct {
	ID         string   // of the backup
	Recipients []string // who could open it
	Err        error    // why it is not open; matches encrypt.ErrNoMatch when keys were tried and none fits
}

// Error names the first recipients, those of a thousand letters by their beginnings.
func (e *KeyError) Error() string {
	const most, long = 8, 80
	var names []string
	for _, r := range e.Recipients[:min(len(e.Recipients), most)] {
		if len(r) > long {
			r = strings.ToValidUTF8(r[:long], "") + "…"
		}
		names = append(names, r)
	}
	if more := len(e.Recipients) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("backup %s is encrypted to %s: %v", e.ID, strings.Join(names, ", "), e.Err)
}

func (e *KeyError) Unwrap() error { return e.Err }

var (
	errLocked     = errors.New("it has not been unlocked")
	errNoIdentity = errors.New("no identity was given")
)

// locked is the error of every method that needs the key and has none.
func (b *Backup) locked() error { return &KeyError{b.ID, b.Recipients(), errLocked} }

// Locked tells whether the backup is encrypted and has not been unlocked yet.
func (b *Backup) Locked() bool { return b.Manifest != nil && b.Manifest.Encrypted && b.key == nil }

// Recipients returns whom the backup's key is encrypted to now, as far as can be told without it: after a change of the
// key that was cut short, those of before and after. It is empty for a backup that is not encrypted.
func (b *Backup) Recipients() []string {
	switch {
	case b.change != nil:
		return b.change.Recipients
	case b.Manifest != nil:
		return b.Manifest.Recipients
	}
	return nil
}

// Keys returns what key.age may be: one object, or several after a change that was cut short, or none when the backup is
// not encrypted.
func (b *Backup) Keys() []Object { return b.keys(b.change) }

// keys is Keys as of a given change.
func (b *Backup) keys(change *keyChange) []Object {
	switch {
	case change != nil:
		return change.Keys
	case b.Manifest != nil && b.Manifest.Key != nil:
		return []Object{*b.Manifest.Key}
	}
	return nil
}

// SumsFit tells whether data is what SHA256SUMS may say: what the manifest vouches for, and one of Keys.
func (b *Backup) SumsFit(data []byte) bool {
	if b.Manifest == nil {
		return false
	}
	if !b.Manifest.Encrypted {
		return string(data) == string(b.Manifest.Sums())
	}
	return slices.ContainsFunc(b.Keys(), func(o Object) bool { return string(data) == string(b.Manifest.sums(&o)) })
}

// PostQuantum tells whether the backup's own identity, and with it the data, withstands quantum computers. It is false
// while the backup is locked, and for one that is not encrypted. New recipients don't change it.
func (b *Backup) PostQuantum() bool { return b.key != nil && b.key.PostQuantum() }

// loadKeys keeps what Unlock needs, and reads key.json if there is one.
func (b *Backup) loadKeys(ctx context.Context, e entry, manifest []byte) {
	b.sealed = manifest
	if !e.rekeyed {
		return
	}
	if b.change, b.changeErr = b.readChange(ctx); b.changeErr != nil {
		b.Err = b.changeErr
		if errors.Is(b.changeErr, ErrAltered) {
			b.State = Warning // whoever restores it must look first
		}
	}
}

// ReadKey returns the stored bytes of key.age. The error matches ErrMissing when it is not there, and ErrAltered when it
// is not one of Keys: then the bytes are returned all the same.
func (b *Backup) ReadKey(ctx context.Context) ([]byte, error) {
	data, _, err := b.readKey(ctx)
	return data, err
}

// readKey returns key.age and the change that goes with it, which may be younger than b: a change may go on meanwhile.
func (b *Backup) readKey(ctx context.Context) (data []byte, change *keyChange, err error) {
	change = b.change
	for range 3 {
		data, err = readObject(ctx, b.Repository.sink, join(b.Server, b.ID, KeyObject), maxKey)
		switch {
		case errors.Is(err, errTooLarge):
			return nil, change, fmt.Errorf("%w: %w", ErrAltered, err)
		case err != nil:
			return nil, change, fmt.Errorf("%s: %w", b.Repository.location, missing(err))
		case slices.Contains(b.keys(change), keyOf(data)):
			return data, change, nil
		}
		younger, cerr := b.readChange(ctx)
		if cerr != nil || younger == nil {
			break
		}
		change = younger
	}
	return data, change, fmt.Errorf("%s of %s: %w: nothing vouches for its bytes", KeyObject, b.ID, ErrAltered)
}

// keyOf returns the object that key.age is when it has these bytes.
func keyOf(data []byte) Object { return Object{KeyObject, int64(len(data)), sumOf(data)} }

// Unlock opens the backup's own identity with one of ids and proves with it that manifest, and what hangs on it, are as
// its holder made them. A backup that is not encrypted needs no key: nil. The error is a *KeyError when no identity fits,
// matches ErrMissing when key.age is gone, and ErrAltered when something was changed by someone who does not hold the key,
// or damaged. After ErrAltered the backup is open all the same if its key could be had, which Locked tells: who wants to
// save what can be saved may go on, knowing that.
func (b *Backup) Unlock(ctx context.Context, ids *encrypt.Identities) error {
	if b.Locked() && ids.Empty() {
		return &KeyError{b.ID, b.Recipients(), errNoIdentity}
	}
	return b.unlock(ctx, func(sealed []byte) (*encrypt.Key, error) {
		key, err := encrypt.OpenKey(sealed, ids)
		if err == nil {
			b.opened = keyOf(sealed)
		}
		return key, err
	})
}

// UnlockWith is Unlock for who has the backup's own key already, as the run that has just made the backup does. key.age
// is not opened, but it must be there and be one of Keys.
func (b *Backup) UnlockWith(ctx context.Context, key *encrypt.Key) error {
	return b.unlock(ctx, func([]byte) (*encrypt.Key, error) { return key, nil })
}

// unlock does what Unlock says; open opens key.age.
func (b *Backup) unlock(ctx context.Context, open func([]byte) (*encrypt.Key, error)) error {
	switch {
	case b.Manifest == nil:
		return fmt.Errorf("backup %s: %w: it can't be read", b.ID, ErrManifest)
	case !b.Manifest.Encrypted:
		return nil
	case b.key != nil:
		return b.altered
	}
	if b.changeErr != nil { // it may have been mended, or been out of reach
		if b.change, b.changeErr = b.readChange(ctx); b.changeErr != nil && !errors.Is(b.changeErr, ErrAltered) {
			return b.changeErr
		}
	}
	data, change, doubt := b.readKey(ctx)
	if doubt != nil && (data == nil || !errors.Is(doubt, ErrAltered)) {
		return doubt
	}
	key, err := open(data)
	if err != nil {
		return b.unopened(err, doubt)
	}
	b.key, b.change = key, change
	b.altered = b.prove(doubt)
	return b.altered
}

// unopened is the error of a key.age that could not be opened for err; doubt tells whether it is the right one.
func (b *Backup) unopened(err, doubt error) error {
	if errors.Is(err, encrypt.ErrDamaged) {
		err = fmt.Errorf("%s of %s: %w: %w", KeyObject, b.ID, ErrAltered, err)
	} else {
		err = &KeyError{b.ID, b.Recipients(), err}
	}
	if doubt != nil {
		return fmt.Errorf("%w; %w", doubt, err)
	}
	return err
}

// prove checks the codes of manifest and key.json. doubt is what is wrong with key.age.
func (b *Backup) prove(doubt error) error {
	b.forged = !checkMAC(b.sealed, b.mac(manifestPurpose))
	switch {
	case b.forged:
		return fmt.Errorf("%s of %s: %w: its code is not made with the backup's key", ManifestObject, b.ID, ErrAltered)
	case b.change != nil && !checkMAC(b.change.stored, b.mac(rekeyPurpose)):
		return fmt.Errorf("%s of %s: %w: its code is not made with the backup's key", RekeyObject, b.ID, ErrAltered)
	case doubt != nil:
		return doubt
	}
	return b.changeErr
}

// mac returns the function that makes codes with the backup's key.
func (b *Backup) mac(purpose string) macFunc {
	return func(data []byte) []byte { return b.key.MAC(purpose, data) }
}
