package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/mbwrap/mbwrap/sinks"
)

// StoredVolumes are the volumes of a finished backup, opened as they are asked for. Its methods may be called by
// several goroutines.
type StoredVolumes struct {
	ctx    context.Context
	backup *Backup

	mutex sync.Mutex // guards open
	open  map[int]sinks.Object
}

// StoredVolumes gives access to b's volumes. They are opened under ctx; Close must be called.
func (b *Backup) StoredVolumes(ctx context.Context) *StoredVolumes {
	return &StoredVolumes{ctx: ctx, backup: b, open: make(map[int]sinks.Object)}
}

// At returns volume n, counted from 1; it is pipeline.UnpackOptions.Volume. The error matches fs.ErrNotExist when the
// volume is gone, and ErrIndex when the manifest names no such volume.
func (v *StoredVolumes) At(n int) (io.ReaderAt, error) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if object, found := v.open[n]; found {
		return object, nil
	}
	volumes := v.backup.Manifest.Volumes
	if n < 1 || n > len(volumes) {
		return nil, fmt.Errorf("%w: it names volume %d of %d", ErrIndex, n, len(volumes))
	}
	object, err := v.backup.Open(v.ctx, volumes[n-1].Name)
	if err != nil {
		return nil, fmt.Errorf("open volume %q: %w", volumes[n-1].Name, err)
	}
	v.open[n] = object
	return object, nil
}

// Close closes the volumes that were opened.
func (v *StoredVolumes) Close() error {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	var all []error
	for _, object := range v.open {
		all = append(all, object.Close())
	}
	clear(v.open)
	return errors.Join(all...)
}
