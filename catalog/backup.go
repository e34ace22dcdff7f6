package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/sinks"
)

// State tells how far a backup can be trusted.
type State string

// States of backups.
const (
	Complete   State = "complete"
	Warning    State = "warning"    // complete, but something about it should be read
	Bad        State = "bad"        // a verification failed, or its manifest is damaged
	Incomplete State = "incomplete" // no manifest: the run is still going on or died
)

// Backup is an entry of a repository. Unlock and Rekey are for one goroutine alone; the other methods may be called by
// several.
type Backup struct {
	Repository *Repository
	Server     string
	ID         string
	State      State
	Manifest   *Manifest // nil when the state is Incomplete, or Bad for want of a readable manifest
	Verified   *Verification
	Err        error // why there is no manifest, no verification, or no news of the key, to show

	sealed    []byte     // manifest.json as it is stored; of encrypted backups only
	change    *keyChange // what key.json says; nil if it was never changed
	changeErr error      // why key.json says nothing

	key     *encrypt.Key // once unlocked
	opened  Object       // the key.age that Unlock found it in
	altered error        // what Unlock found wrong
	forged  bool         // and it was the manifest
}

// Usable tells whether the backup can be restored as far as is known.
func (b *Backup) Usable() bool { return b.State == Complete || b.State == Warning }

// load reads a backup's manifest and last verification.
func (r *Repository) load(ctx context.Context, e entry) (*Backup, error) {
	b := &Backup{Repository: r, Server: e.server, ID: e.id, State: Incomplete}
	if !e.manifest {
		return b, nil
	}
	data, err := readObject(ctx, r.sink, join(e.server, e.id, ManifestObject), maxManifest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b, nil // removed since it was listed
	case errors.Is(err, errTooLarge):
		b.Err = fmt.Errorf("%w: %w", ErrManifest, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", r.location, err)
	default:
		b.Manifest, b.Err = decodeManifest(data)
	}
	if b.Err == nil && (b.Manifest.ID != e.id || b.Manifest.Server != e.server) {
		b.Err = fmt.Errorf("%w: it is that of %s/%s", ErrManifest, b.Manifest.Server, b.Manifest.ID)
		b.Manifest = nil
	}
	if b.Err != nil {
		b.State = Bad
		return b, nil
	}
	b.State = Complete
	if len(b.Manifest.Warnings) > 0 {
		b.State = Warning
	}
	if b.Manifest.Encrypted {
		b.loadKeys(ctx, e, data)
	}
	if e.verified {
		var err error
		b.Verified, err = r.verification(ctx, e, data)
		b.Err = errors.Join(b.Err, err)
		if b.Verified != nil && !b.Verified.Passed() {
			b.State = Bad
		}
	}
	return b, nil
}

// Open opens one of the backup's objects by its name in the manifest. The error matches ErrMissing when it is not there.
func (b *Backup) Open(ctx context.Context, name string) (sinks.Object, error) {
	object, err := b.Repository.sink.Open(ctx, join(b.Server, b.ID, name))
	return object, missing(err)
}

// missing marks the error of an object that the manifest names.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return err
}

// ReadManifest returns the stored bytes of manifest.json.
func (b *Backup) ReadManifest(ctx context.Context) ([]byte, error) {
	return readObject(ctx, b.Repository.sink, join(b.Server, b.ID, ManifestObject), maxManifest)
}

// ReadSums returns the stored bytes of SHA256SUMS.
func (b *Backup) ReadSums(ctx context.Context) ([]byte, error) {
	return readObject(ctx, b.Repository.sink, join(b.Server, b.ID, SumsObject), maxManifest)
}

// Index reads and decodes the backup's index. The errors match ErrIndex when it is there but not what the manifest says,
// ErrFormat when it can't be read by this version, and *KeyError when the backup is locked.
func (b *Backup) Index(ctx context.Context) (*Index, error) {
	m := b.Manifest
	if b.Locked() {
		return nil, b.locked()
	}
	data, err := readObject(ctx, b.Repository.sink, join(b.Server, b.ID, m.Index.Name), MaxIndex)
	if errors.Is(err, errTooLarge) {
		err = fmt.Errorf("%w: %w", ErrIndex, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Repository.location, missing(err))
	}
	ix, err := b.decodeIndex(data)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", m.Index.Name, b.ID, err)
	}
	return ix, nil
}

// decodeIndex opens the stored bytes of the index and compares them with the manifest.
func (b *Backup) decodeIndex(data []byte) (*Index, error) {
	m := b.Manifest
	if int64(len(data)) != m.Index.Size || sumOf(data) != m.Index.SHA256 {
		return nil, fmt.Errorf("%w: its bytes are not those that the manifest vouches for", ErrIndex)
	}
	var plain io.Reader = bytes.NewReader(data)
	if b.key != nil {
		opened, err := b.key.Open(plain)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrIndex, err)
		}
		plain = opened
	}
	ix, err := readIndex(plain)
	if err != nil {
		return nil, err
	}
	if ix.raw != m.RawBytes || ix.volumes != len(m.Volumes) {
		return nil, fmt.Errorf("%w: it describes %d bytes in %d volumes, the manifest %d in %d",
			ErrIndex, ix.raw, ix.volumes, m.RawBytes, len(m.Volumes))
	}
	return ix, nil
}
