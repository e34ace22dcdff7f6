package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/sinks"
)

// keyChange is what key.json holds: whom key.age is encrypted to since its last change, and what it may be.
type keyChange struct {
	Format     int       `json:"format"`
	Recipients []string  `json:"recipients"`
	Changed    time.Time `json:"changed"`
	Keys       []Object  `json:"keys"` // one, or several while a change goes on

	stored []byte // the document
}

const (
	maxChange = 64 << 20 // bytes of key.json
	maxKeys   = 8
)

// decodeChange verifies the seal of a key.json and decodes it. Its code needs the key. The errors match ErrAltered or
// ErrFormat.
func decodeChange(data []byte) (*keyChange, error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := unseal(data, &head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAltered, err)
	}
	if head.Format > Format {
		return nil, fmt.Errorf("format %d: %w", head.Format, ErrFormat)
	}
	c := &keyChange{stored: data}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAltered, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAltered, err)
	}
	return c, nil
}

// check refuses what no Rekey writes.
func (c *keyChange) check() error {
	if _, _, ok := cutMAC(c.stored); !ok || c.Format < 1 {
		return fmt.Errorf("format %d, code in its place: %v", c.Format, ok)
	}
	if len(c.Keys) == 0 || len(c.Keys) > maxKeys {
		return fmt.Errorf("%d keys", len(c.Keys))
	}
	for _, o := range c.Keys {
		if err := checkKey(o); err != nil {
			return err
		}
	}
	return checkRecipients(c.Recipients)
}

// readChange reads key.json: nil if there is none.
func (b *Backup) readChange(ctx context.Context) (*keyChange, error) {
	data, err := readObject(ctx, b.Repository.sink, join(b.Server, b.ID, RekeyObject), maxChange)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, errTooLarge):
		return nil, fmt.Errorf("%w: %w", ErrAltered, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", b.Repository.location, err)
	}
	c, err := decodeChange(data)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", RekeyObject, b.ID, err)
	}
	return c, nil
}

// Rekey encrypts the backup's own identity to other recipients: key.age is replaced, the data stay as they are. The
// backup must be unlocked, and its manifest be as its maker left it. A Rekey that fails half-way leaves a backup that the
// old or the new recipients can open; the next one puts it in order. Two at a time exclude each other where the sink has
// locks: the error then matches *sinks.LockedError.
//
// Who could open the backup before may have kept its identity: Rekey decides who can open it from now on, it takes nothing
// away from those who could already. Recipients that withstand quantum computers protect key.age from now on; whether they
// protect the data as well, PostQuantum tells.
func (b *Backup) Rekey(ctx context.Context, to *encrypt.Recipients) error {
	replacer, ok := b.Repository.sink.(sinks.Replacer)
	switch {
	case b.Manifest == nil || !b.Manifest.Encrypted:
		return fmt.Errorf("backup %s is not encrypted: it has no key to change", b.ID)
	case b.Locked():
		return b.locked()
	case b.forged:
		return b.altered
	case !ok:
		return fmt.Errorf("%s can't replace objects", b.Repository.location)
	}
	sealed, err := b.key.SealTo(to) // may ask people or plugins: not under the lock
	if err != nil {
		return fmt.Errorf("backup %s: %w", b.ID, err)
	}
	r := &rekeying{backup: b, sink: replacer, sealed: sealed, next: keyChange{
		Format: Format, Recipients: to.Strings(), Changed: time.Now().UTC().Truncate(time.Second), Keys: []Object{keyOf(sealed)}}}
	if _, err := r.encode(r.next); err != nil {
		return fmt.Errorf("backup %s: %w", b.ID, err)
	}
	if err := r.locked(ctx); err != nil {
		return fmt.Errorf("change the key of %s in %s: %w", b.ID, b.Repository.location, err)
	}
	return nil
}

// rekeying is a Rekey under way.
type rekeying struct {
	backup *Backup
	sink   sinks.Replacer
	sealed []byte    // the new key.age
	next   keyChange // what key.json says in the end
}

// locked does the change under a lock of its own: a backup that is being taken has nothing to do with it.
func (r *rekeying) locked(ctx context.Context) (err error) {
	b := r.backup
	if locker, ok := r.sink.(sinks.Locker); ok {
		lock, held := locker.Lock(ctx, join(b.Server, b.ID, rekeyLock), []byte("a change of the key of "+b.ID))
		if held != nil {
			return held
		}
		defer func() { err = errors.Join(err, lock.Unlock()) }()
	}
	return r.run(ctx)
}

const rekeyLock = "rekey"

// run takes the steps. After each of them key.json vouches for the key.age and the SHA256SUMS that are there.
func (r *rekeying) run(ctx context.Context) error {
	b := r.backup
	between := r.next
	used, recipients, err := r.before(ctx)
	if err != nil {
		return err
	}
	between.Keys = append(used, r.next.Keys...)
	between.Recipients = union(recipients, r.next.Recipients)
	if _, err := r.write(ctx, between); err != nil {
		return err
	}
	if err := r.replace(ctx, KeyObject, r.sealed); err != nil {
		return err
	}
	if err := r.replace(ctx, SumsObject, b.Manifest.sums(&r.next.Keys[0])); err != nil {
		return err
	}
	done, err := r.write(ctx, r.next)
	if err != nil {
		return err
	}
	b.change, b.changeErr, b.altered = done, nil, nil
	return nil
}

// before returns what key.age and SHA256SUMS are by now, and for whom, as far as something vouches for it.
func (r *rekeying) before(ctx context.Context) (used []Object, recipients []string, err error) {
	b := r.backup
	change, err := b.readChange(ctx)
	if err != nil && !errors.Is(err, ErrAltered) {
		return nil, nil, err
	}
	if change != nil && !checkMAC(change.stored, b.mac(rekeyPurpose)) {
		change = nil
	}
	key, err := b.content(ctx, KeyObject, maxKey)
	if err != nil {
		return nil, nil, err
	}
	sums, err := b.content(ctx, SumsObject, maxManifest)
	if err != nil {
		return nil, nil, err
	}
	recipients = b.Manifest.Recipients
	if change != nil {
		recipients = change.Recipients
	}
	vouched := b.keys(change)
	if !slices.Contains(vouched, b.opened) {
		vouched = append(slices.Clip(vouched), b.opened) // it holds the key that the manifest is proven with
	}
	for _, o := range vouched {
		if o == keyOf(key) || string(sums) == string(b.Manifest.sums(&o)) {
			used = append(used, o)
		}
	}
	return used, recipients, nil
}

// content returns an object's bytes, none if it is missing or not what it can be: it is going to be replaced.
func (b *Backup) content(ctx context.Context, name string, limit int64) ([]byte, error) {
	data, err := readObject(ctx, b.Repository.sink, join(b.Server, b.ID, name), limit)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errTooLarge) {
		return nil, nil
	}
	return data, err
}

// union returns the elements of a, and those of b that are not among them.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all[:min(len(all), maxRecipients)]
}

// encode returns the sealed document of c, proven readable.
func (r *rekeying) encode(c keyChange) (*keyChange, error) {
	data, err := sealMAC(c, r.backup.mac(rekeyPurpose))
	if err != nil {
		return nil, err
	}
	return decodeChange(data)
}

// write replaces key.json.
func (r *rekeying) write(ctx context.Context, c keyChange) (*keyChange, error) {
	encoded, err := r.encode(c)
	if err != nil {
		return nil, err
	}
	return encoded, r.replace(ctx, RekeyObject, encoded.stored)
}

// replace replaces an object of the backup.
func (r *rekeying) replace(ctx context.Context, name string, data []byte) error {
	return r.sink.Replace(ctx, join(r.backup.Server, r.backup.ID, name), data)
}
