package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/sinks"
)

// OpenVolume opens volume n, counted from 1. What it reads, and its Size, are those before encryption. The error matches
// ErrMissing when the volume is gone, ErrIndex when the manifest names no such volume, *KeyError when the backup is locked,
// and ErrVolume when the volume has not the size that the manifest says, or when its seal is broken at the beginning or at
// the end: then it matches encrypt.ErrDamaged too.
func (b *Backup) OpenVolume(ctx context.Context, n int) (sinks.Object, error) {
	return b.openVolume(ctx, n, false)
}

// openVolume is OpenVolume; with salvage it opens what is left of a damaged volume.
func (b *Backup) openVolume(ctx context.Context, n int, salvage bool) (sinks.Object, error) {
	volumes := b.Manifest.Volumes
	if n < 1 || n > len(volumes) {
		return nil, fmt.Errorf("%w: it names volume %d of %d", ErrIndex, n, len(volumes))
	}
	if b.Locked() {
		return nil, b.locked()
	}
	stored, err := b.Open(ctx, volumes[n-1].Name)
	if err != nil {
		return nil, fmt.Errorf("open volume %q: %w", volumes[n-1].Name, err)
	}
	opened, err := b.unsealVolume(stored, volumes[n-1], salvage)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("volume %q of %s: %w", volumes[n-1].Name, b.ID, err), stored.Close())
	}
	return opened, nil
}

// unsealVolume returns the plain form of a stored volume.
func (b *Backup) unsealVolume(stored sinks.Object, want Object, salvage bool) (sinks.Object, error) {
	if stored.Size() != want.Size && !salvage {
		return nil, fmt.Errorf("%w: it has %d bytes, the manifest says %d", ErrVolume, stored.Size(), want.Size)
	}
	if b.key == nil {
		return stored, nil
	}
	plain, err := b.key.OpenAt(stored, stored.Size())
	if err != nil && salvage && errors.Is(err, encrypt.ErrDamaged) {
		plain, err = b.key.OpenFrontAt(stored, stored.Size())
	}
	if errors.Is(err, encrypt.ErrDamaged) {
		err = fmt.Errorf("%w: %w", ErrVolume, err)
	}
	if err != nil {
		return nil, err
	}
	return plainObject{plain, stored}, nil
}

// plainObject is a decrypted object.
type plainObject struct {
	*encrypt.Plain
	io.Closer
}

// OpenPlain opens any object of the backup by its name: volumes, index and log of an encrypted backup decrypted, all others
// as they are. The errors are those of Open and, for the former, *KeyError or encrypt.ErrDamaged.
func (b *Backup) OpenPlain(ctx context.Context, name string) (sinks.Object, error) {
	sealed := b.Manifest.Encrypted && slices.ContainsFunc(b.Manifest.Objects(), func(o Object) bool { return o.Name == name })
	if sealed && b.Locked() {
		return nil, b.locked()
	}
	stored, err := b.Open(ctx, name)
	if err != nil || !sealed {
		return stored, err
	}
	plain, err := b.key.OpenAt(stored, stored.Size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%q of %s: %w", name, b.ID, err), stored.Close())
	}
	return plainObject{plain, stored}, nil
}

// CheckVolumes tells whether all volumes can be opened, without reading them: whether they are there, of the right sizes
// and, when the backup is encrypted, sealed from the first byte to the last. It opens one at a time. The error is that of
// OpenVolume for the first that can't.
func (b *Backup) CheckVolumes(ctx context.Context) error {
	for n := range b.Manifest.Volumes {
		volume, err := b.OpenVolume(ctx, n+1)
		if err != nil {
			return err
		}
		if err := volume.Close(); err != nil {
			return err
		}
	}
	return nil
}

// StoredVolumes are the volumes of a finished backup, opened as they are asked for. Its methods may be called by
// several goroutines.
type StoredVolumes struct {
	// Salvage opens damaged volumes too, for whoever wants what is left of them: volumes of another size than the
	// manifest says, and sealed ones whose end is damaged or cut off, see encrypt.Key.OpenFrontAt. It is set before the
	// first volume is asked for.
	Salvage bool

	ctx    context.Context
	backup *Backup

	mutex sync.Mutex // guards open
	open  map[int]openVolume
}

// openVolume is a volume that was asked for: an object, or why it can't be had.
type openVolume struct {
	object sinks.Object
	err    error
}

// StoredVolumes gives access to b's volumes. They are opened under ctx; Close must be called.
func (b *Backup) StoredVolumes(ctx context.Context) *StoredVolumes {
	return &StoredVolumes{ctx: ctx, backup: b, open: make(map[int]openVolume)}
}

// At returns volume n, counted from 1, as it was before encryption; it is pipeline.UnpackOptions.Volume. The errors are
// those of Backup.OpenVolume. A volume that is missing or damaged is not looked at again.
func (v *StoredVolumes) At(n int) (io.ReaderAt, error) {
	object, err := v.at(n)
	if err != nil {
		return nil, err
	}
	return object, nil
}

func (v *StoredVolumes) at(n int) (sinks.Object, error) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if known, found := v.open[n]; found {
		return known.object, known.err
	}
	object, err := v.backup.openVolume(v.ctx, n, v.Salvage)
	if err == nil || errors.Is(err, ErrVolume) || errors.Is(err, fs.ErrNotExist) {
		v.open[n] = openVolume{object, err}
	}
	return object, err
}

// Stored returns where the byte at offset plain of volume n lies in the stored object: where the piece of age that holds
// it begins, or the same offset when the backup is not encrypted. It is -1 if the volume can't be opened.
func (v *StoredVolumes) Stored(n int, plain int64) int64 {
	object, err := v.at(n)
	if err != nil {
		return -1
	}
	if sealed, ok := object.(plainObject); ok {
		return sealed.StoredOffset(plain)
	}
	return plain
}

// Close closes the volumes that were opened.
func (v *StoredVolumes) Close() error {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	var all []error
	for _, volume := range v.open {
		if volume.object != nil {
			all = append(all, volume.object.Close())
		}
	}
	clear(v.open)
	return errors.Join(all...)
}
