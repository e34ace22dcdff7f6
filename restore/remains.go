package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/pipeline"
)

// remains are what is left of the volumes of a damaged backup. What can't be read because it is missing or damaged comes
// as an error that matches pipeline.ErrBlock; a store that does not answer is no damage, since it may answer tomorrow.
type remains struct{ volumes *catalog.StoredVolumes }

// newRemains opens volumes under ctx as they are asked for; close must be called.
func newRemains(ctx context.Context, b *catalog.Backup) remains {
	volumes := b.StoredVolumes(ctx)
	volumes.Salvage = true
	return remains{volumes}
}

func (r remains) close() error { return r.volumes.Close() }

// at returns volume n, counted from 1. One that is missing can be read like one of which every byte is damaged.
func (r remains) at(n int) (io.ReaderAt, error) {
	volume, err := r.volumes.At(n)
	if err == nil {
		return remnant{volume}, nil
	}
	if isDamage(err) {
		return missingVolume{err}, nil
	}
	return nil, err
}

// whole returns volume n to be read from front to back. The error matches pipeline.ErrBlock when nothing is left of it.
func (r remains) whole(n int) (io.Reader, error) {
	volume, err := r.volumes.At(n)
	if err != nil {
		return nil, asDamage(err)
	}
	sized, ok := volume.(interface{ Size() int64 })
	if !ok {
		return nil, fmt.Errorf("restore: internal error: volume %d has no size", n)
	}
	return io.NewSectionReader(remnant{volume}, 0, sized.Size()), nil
}

// remnant reads a volume of which parts may be damaged.
type remnant struct{ io.ReaderAt }

func (r remnant) ReadAt(p []byte, at int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(p, at)
	return n, asDamage(err)
}

// missingVolume stands for a volume of which nothing is left.
type missingVolume struct{ err error }

func (m missingVolume) ReadAt([]byte, int64) (int, error) { return 0, asDamage(m.err) }

// isDamage tells whether an error says that something is gone or damaged for good: it is missing, its seal is broken, or
// the disk can't read it.
func isDamage(err error) bool {
	if _, locked := errors.AsType[*catalog.KeyError](err); locked {
		return false
	}
	for _, sign := range []error{pipeline.ErrBlock, encrypt.ErrDamaged, fs.ErrNotExist, syscall.EIO, syscall.EBADMSG, syscall.EUCLEAN} {
		if errors.Is(err, sign) {
			return true
		}
	}
	return false
}

// asDamage makes an error of damage one that matches pipeline.ErrBlock.
func asDamage(err error) error {
	if err == nil || errors.Is(err, pipeline.ErrBlock) || !isDamage(err) {
		return err
	}
	return fmt.Errorf("%w: %w", pipeline.ErrBlock, err)
}

// anyVolume tells whether there is a volume of which anything may be left; else the error says what is the matter with
// the first.
func anyVolume(ctx context.Context, b *catalog.Backup) (err error) {
	volumes := newRemains(ctx, b)
	defer func() { err = errors.Join(err, volumes.close()) }()
	var first error
	for n := range b.Manifest.Volumes {
		_, err := volumes.whole(n + 1)
		if err == nil || !errors.Is(err, pipeline.ErrBlock) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}
