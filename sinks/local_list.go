package sinks

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// leftoverAge is how long a temporary file must have rested to be called dead where the file system has no flock.
const leftoverAge = 24 * time.Hour

// List returns the objects whose names begin with prefix; see Sink.
func (l *Local) List(ctx context.Context, prefix string) ([]Info, error) {
	return l.list(ctx, prefix, func(_ *folder, info Info) bool {
		return !strings.HasPrefix(path.Base(info.Name), reserved)
	})
}

// Leftovers lists the temporary files of dead writers; see Scavenger.
func (l *Local) Leftovers(ctx context.Context, prefix string) ([]Info, error) {
	return l.list(ctx, prefix, func(d *folder, info Info) bool {
		if !strings.HasPrefix(path.Base(info.Name), tempPrefix) {
			return false
		}
		f, err := openDead(d, path.Base(info.Name))
		if err != nil {
			return false // alive, just committed, or not ours to open
		}
		f.Close() // nothing written
		return true
	})
}

// RemoveLeftover removes one of them; see Scavenger. Folders that become empty go too.
func (l *Local) RemoveLeftover(ctx context.Context, name string) error {
	base := path.Base(name)
	if !strings.HasPrefix(base, tempPrefix) || CheckName(path.Join(path.Dir(name), "x")) != nil || path.Clean(name) != name {
		return l.fail("remove leftover", name, fs.ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return l.fail("remove leftover", name, err)
	}
	d, err := l.openDir(path.Dir(name))
	if err != nil {
		return l.fail("remove leftover", name, absent(err))
	}
	defer d.close()
	f, err := openDead(d, base)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = &LockedError{Name: name}
	}
	if err != nil {
		return l.fail("remove leftover", name, err)
	}
	defer f.Close() // the lock is held until the file is gone
	if err := l.remove(name); err != nil {
		return l.fail("remove leftover", name, err)
	}
	return nil
}

// openDead opens and locks the temporary file name in d. The error is EWOULDBLOCK if its writer lives.
func openDead(d *folder, name string) (*os.File, error) {
	f, err := d.root.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	err = flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil && noLocks(err) {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && time.Since(info.ModTime()) < leftoverAge {
			err = syscall.EWOULDBLOCK
		}
	}
	if err != nil {
		f.Close() // nothing written
		return nil, err
	}
	return f, nil
}

// list walks the folders that can hold names with the prefix and returns what want accepts, sorted.
func (l *Local) list(ctx context.Context, prefix string, want func(*folder, Info) bool) ([]Info, error) {
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	w := walk{local: l, ctx: ctx, prefix: prefix, want: want}
	start, _ := path.Split(prefix)
	if err := w.folder(path.Clean(start)); err != nil {
		return nil, l.fail("list", prefix, err)
	}
	slices.SortFunc(w.found, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	return w.found, nil
}

// walk is one list in progress.
type walk struct {
	local  *Local
	ctx    context.Context
	prefix string
	want   func(*folder, Info) bool
	found  []Info
}

// folder collects the files of one directory and of those below. What vanishes meanwhile was removed by another.
func (w *walk) folder(name string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	d, err := w.local.openDir(name)
	if err != nil {
		return vanished(err)
	}
	defer d.close()
	entries, err := d.file.ReadDir(-1)
	if err != nil {
		return vanished(err)
	}
	for _, e := range entries {
		full := path.Join(name, e.Name())
		if err := w.entry(d, full, e); err != nil {
			return err
		}
	}
	return nil
}

// entry takes one file, or goes down into one directory.
func (w *walk) entry(d *folder, name string, e fs.DirEntry) error {
	if e.IsDir() {
		if !strings.HasPrefix(name+"/", w.prefix) && !strings.HasPrefix(w.prefix, name+"/") {
			return nil
		}
		return w.folder(name)
	}
	if !e.Type().IsRegular() || !strings.HasPrefix(name, w.prefix) {
		return nil
	}
	info, err := e.Info()
	if err != nil {
		return vanished(err)
	}
	found := Info{Name: name, Size: info.Size(), ModTime: info.ModTime()}
	if w.want(d, found) {
		w.found = append(w.found, found)
	}
	return nil
}

// vanished drops the errors of looking at something that is not there, or is not a directory.
func vanished(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}
