package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/mbwrap/mbwrap/encrypt"
)

// UnlockWith is Unlock for who has the backup's own key already, as the run that has just made the backup does. key.age
// is not opened, but it must be there and be one of Keys.
func (b *Backup) UnlockWith(ctx context.Context, key *encrypt.Key) error {
	switch {
	case b.Manifest == nil:
		return fmt.Errorf("backup %s: %w: it can't be read", b.ID, ErrManifest)
	case !b.Manifest.Encrypted:
		return nil
	case b.key != nil:
		return b.altered
	}
	data, change, doubt := b.readKey(ctx)
	if doubt != nil && (data == nil || !errors.Is(doubt, ErrAltered)) {
		return doubt
	}
	b.key, b.change, b.opened = key, change, keyOf(data)
	b.altered = b.prove(doubt)
	return b.altered
}
