package sinks

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockPrefix begins the name of a lock's file.
const lockPrefix = reserved + "lock-"

// maxOwner bounds what is read of a holder's words.
const maxOwner = 64 << 10

// Lock takes the lock called name; see Locker. It is a flock(2) on the file .mbwrap-lock-BASE in the lock's folder, which
// holds the owner's bytes. The kernel frees it when its holder dies; the file that is left then blocks nobody. Unlock
// removes the file while it still holds the lock; whoever had it open and now gets the lock sees that the file has
// lost its name and begins again, so two can never hold locks on different files of one name.
func (l *Local) Lock(ctx context.Context, name string, owner []byte) (Lock, error) {
	if err := check(ctx, name); err != nil {
		return nil, err
	}
	lock, err := l.lock(name, owner)
	var locked *LockedError
	if errors.As(err, &locked) {
		return nil, err
	}
	if err != nil {
		return nil, l.fail("lock", name, err)
	}
	return lock, nil
}

func (l *Local) lock(name string, owner []byte) (*localLock, error) {
	const attempts = 1000 // each one lost to another who had the lock and gave it back at that moment
	for range attempts {
		k, err := l.tryLock(name)
		if err != nil {
			return nil, also(err, l.removeMade(path.Dir(name)))
		}
		if k == nil {
			continue
		}
		if err := k.write(owner); err != nil {
			return nil, also(err, k.Unlock())
		}
		return k, nil
	}
	return nil, &LockedError{Name: name}
}

// tryLock returns nil, nil if the file or its folder lost its name meanwhile.
func (l *Local) tryLock(name string) (*localLock, error) {
	d, err := l.makeDir(path.Dir(name))
	if err != nil {
		return nil, err
	}
	k := &localLock{local: l, name: name, dir: d}
	k.file, err = k.take()
	if k.file != nil {
		return k, nil
	}
	d.close()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return nil, err
}

type localLock struct {
	local *Local
	name  string
	dir   *folder
	file  *os.File
	once  sync.Once
	err   error
}

// base is the name of the lock's file in its folder.
func (k *localLock) base() string { return lockPrefix + path.Base(k.name) }

// take opens and locks the file. It returns nil, nil if the file lost its name meanwhile, and *LockedError if another
// has the lock.
func (k *localLock) take() (*os.File, error) {
	f, err := k.dir.root.OpenFile(k.base(), os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, defaultFileMode)
	if err != nil {
		return nil, err
	}
	err = flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		owner, _ := io.ReadAll(io.LimitReader(f, maxOwner)) // told if it can be
		err = &LockedError{Name: k.name, Owner: owner}
	}
	linked := false
	if err == nil {
		linked, err = sameFile(k.dir, k.base(), f)
	}
	if err != nil || !linked {
		f.Close() // nothing written
		return nil, err
	}
	return f, nil
}

// write tells the owner's bytes. On a full disk nobody can be told, but the lock holds: those who come to make room need it.
func (k *localLock) write(owner []byte) error {
	if mode := k.local.options.FileMode; mode != 0 {
		_ = k.file.Chmod(mode) // only the file's owner may; then it has the mode already
	}
	err := k.file.Truncate(0)
	if err == nil {
		_, err = k.file.WriteAt(owner, 0)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return k.file.Truncate(0)
	}
	return err
}

// Unlock removes the file and frees the lock. If someone put another file in its place by hand, that one stays.
func (k *localLock) Unlock() error {
	k.once.Do(func() {
		linked, err := sameFile(k.dir, k.base(), k.file)
		if linked {
			err = k.dir.root.Remove(k.base())
		}
		k.file.Close() // the owner's words need not last
		k.dir.close()
		if err = also(err, k.local.removeMade(path.Dir(k.name))); err != nil {
			k.err = k.local.fail("unlock", k.name, err)
		}
	})
	return k.err
}

// sameFile reports whether name in d is the open file f.
func sameFile(d *folder, name string, f *os.File) (bool, error) {
	open, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(open, named), err
}

func flock(f *os.File, how int) error {
	return retry(func() error { return unix.Flock(int(f.Fd()), how) })
}

// lockAlive locks a new temporary file. Only those who look whether we live could hold it, for a moment, so we wait. File
// systems without such locks are served too; there the age of the file must do, see leftoverAge.
func lockAlive(f *os.File) error {
	if err := flock(f, unix.LOCK_EX); err != nil && !noLocks(err) {
		return err
	}
	return nil
}

// noLocks reports whether err says that the file system has no flock.
func noLocks(err error) bool {
	return errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ENOLCK) ||
		errors.Is(err, syscall.EINVAL)
}

// duplicate returns a second descriptor of the same open file.
func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
