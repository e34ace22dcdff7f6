package sinks

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Modes of new files and folders unless LocalOptions says otherwise.
const (
	defaultFileMode fs.FileMode = 0o600
	defaultDirMode  fs.FileMode = 0o700
)

// folder is an open directory below the root. Operations through it stay in that directory even when it is renamed or
// its path is replaced by a link meanwhile.
type folder struct {
	root *os.Root
	file *os.File // the same directory, for sync and for system calls that need a descriptor
}

func (d *folder) close() {
	d.file.Close() // only read
	d.root.Close()
}

// sync makes what was done to the entries of the directory durable. Some file systems have no such thing and say so.
func (d *folder) sync() error { return syncDir(d.file) }

func syncDir(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

// openDir opens the directory name, "." being the root.
func (l *Local) openDir(name string) (*folder, error) {
	root, err := l.root.OpenRoot(name)
	if err != nil {
		if info, serr := l.root.Stat(name); serr == nil && !info.IsDir() {
			return nil, syscall.ENOTDIR // OpenRoot says so too, but with an error that nothing can match
		}
		return nil, err
	}
	file, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return &folder{root: root, file: file}, nil
}

// makeDir opens the directory name and creates it with its parents if it is absent. What it created is noted in made.
func (l *Local) makeDir(name string) (*folder, error) {
	const attempts = 100 // another may be removing the empty folder as often as we make it
	for range attempts {
		d, err := l.openDir(name)
		if !errors.Is(err, fs.ErrNotExist) {
			return d, err
		}
		if err := l.mkdirAll(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fs.ErrNotExist
}

// mkdirAll creates the directory name below the root and its parents.
func (l *Local) mkdirAll(name string) error {
	if name == "." {
		return nil
	}
	if err := l.mkdirAll(path.Dir(name)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.root.Mkdir(name, defaultDirMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l.made[name] = true
	if l.options.DirMode == 0 {
		return nil
	}
	f, err := l.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Chmod(l.options.DirMode)
}

// syncParents syncs every directory above name up to and including the root. All of them, not only those made by this
// writer: one that another writer made a moment ago may not be durable yet.
func (l *Local) syncParents(name string) error {
	for name != "." {
		name = path.Dir(name)
		f, err := l.root.Open(name)
		if err != nil {
			return err
		}
		err = syncDir(f)
		f.Close() // only read
		if err != nil {
			return err
		}
	}
	return nil
}

// keep notes that the directory name and those above it hold something committed.
func (l *Local) keep(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; name != "."; name = path.Dir(name) {
		delete(l.made, name)
	}
}

// removeMade removes the directory name and those above it as far as they are empty and were made for nothing.
func (l *Local) removeMade(name string) error {
	return l.removeEmpty(name, func(name string) bool { return l.made[name] })
}

// removeEmpty removes the directory name and those above it, as long as they are empty and may is true, which is called
// with mu held. What can't be removed because it is in use, gone, or a link is no error.
func (l *Local) removeEmpty(name string, may func(string) bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; name != "." && may(name); name = path.Dir(name) {
		err := l.rmdir(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return inUse(err)
		}
		delete(l.made, name)
	}
	return nil
}

// rmdir removes one empty directory, and makes that durable. It never removes anything else, which Root.Remove would.
func (l *Local) rmdir(name string) error {
	parent, err := l.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	err = retry(func() error { return unix.Unlinkat(int(parent.Fd()), path.Base(name), unix.AT_REMOVEDIR) })
	if err != nil {
		return err
	}
	return syncDir(parent)
}

// inUse drops the errors of rmdir that only say the directory must stay.
func inUse(err error) error {
	for _, e := range []error{syscall.ENOTEMPTY, syscall.EEXIST, syscall.EBUSY, syscall.ENOTDIR, syscall.EACCES,
		syscall.EPERM, syscall.EROFS} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// makeRoot creates the absolute directory dir and its parents and makes each new one durable in the one above it.
func makeRoot(dir string, o LocalOptions) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makeRoot(parent, LocalOptions{}); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, defaultDirMode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil // made meanwhile; or a file, which OpenRoot will refuse
		}
		return err
	}
	if o.DirMode != 0 {
		if err := os.Chmod(dir, o.DirMode); err != nil {
			return err
		}
	}
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return nil // a directory we may write but not read can't be synced
	}
	defer parent.Close()
	return syncDir(parent)
}

// retry repeats a system call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
