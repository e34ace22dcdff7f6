package sinks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"syscall"
)

// LocalOptions are the choices of a local sink. The zero value is right for backups, which are secrets: files 0600,
// folders 0700, less what the umask takes away.
type LocalOptions struct {
	// FileMode and DirMode, when not zero, are given to new files and folders exactly, whatever the umask: 0640 and
	// 0750|fs.ModeSetgid let a group read.
	FileMode, DirMode fs.FileMode
	// NoCreate makes Open fail with fs.ErrNotExist when the directory is absent, instead of creating it.
	NoCreate bool
}

// Local keeps objects as files below one directory. Nothing it does reaches outside, whatever symbolic links someone
// puts there: every access goes through os.Root. Links that stay inside are followed, but List does not look behind them.
//
// A file in the making is called .mbwrap-tmp-PID-RANDOM and stands in the folder of its object; its writer holds a
// flock(2) on it, so that everybody can see whether the writer lives. Commit is: length compared, file synced, file
// closed, renamed without replacing, folders synced up to the root.
//
// Local is also a Replacer, a Locker and a Scavenger, and tells with Free how much room is left.
type Local struct {
	root    *os.Root
	dir     string
	options LocalOptions
	step    func(string) error // see do; nil but in tests
	mu      sync.Mutex
	made    map[string]bool // folders made by us which hold nothing committed yet; guarded by mu
}

var (
	_ Sink      = (*Local)(nil)
	_ Replacer  = (*Local)(nil)
	_ Locker    = (*Local)(nil)
	_ Scavenger = (*Local)(nil)
)

// NewLocal opens the directory dir as a sink and creates it, with its parents, if it is absent.
func NewLocal(dir string) (*Local, error) { return LocalOptions{}.Open(dir) }

// Open opens the directory dir as a sink.
func (o LocalOptions) Open(dir string) (*Local, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open directory %q: %w", dir, err)
	}
	if !o.NoCreate {
		if err := makeRoot(abs, o); err != nil {
			return nil, fmt.Errorf("create directory %q: %w", abs, cause(err))
		}
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("open directory %q: %w", abs, cause(err))
	}
	return &Local{root: root, dir: abs, options: o, made: map[string]bool{}}, nil
}

// Location returns the absolute path of the directory.
func (l *Local) Location() string { return l.dir }

// Close releases the directory. Objects, writers and locks that are open stay usable; no new ones can be had.
func (l *Local) Close() error { return l.root.Close() }

// Free returns how many bytes can still be stored by this user. Callers that have only a Sink ask for
// interface{ Free(context.Context) (int64, error) }.
func (l *Local) Free(ctx context.Context) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, l.fail("look for free space in", ".", err)
	}
	d, err := l.openDir(".")
	if err != nil {
		return 0, l.fail("look for free space in", ".", err)
	}
	defer d.close()
	n, err := freeBytes(d.file)
	if err != nil {
		return 0, l.fail("look for free space in", ".", err)
	}
	return n, nil
}

// Open opens an object; see Sink. Only regular files are objects.
func (l *Local) Open(ctx context.Context, name string) (Object, error) {
	if err := check(ctx, name); err != nil {
		return nil, err
	}
	// A pipe that someone put there must not block us: O_NONBLOCK means nothing for regular files.
	f, err := l.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, l.fail("open", name, absent(err))
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close() // only read
		return nil, l.fail("open", name, err)
	}
	return &localObject{File: f, size: info.Size()}, nil
}

type localObject struct {
	*os.File
	size int64
}

func (o *localObject) Size() int64 { return o.size }

// Remove deletes an object; see Sink. The removal is durable when it returns nil.
func (l *Local) Remove(ctx context.Context, name string) error {
	if err := check(ctx, name); err != nil {
		return err
	}
	if err := l.remove(name); err != nil {
		return l.fail("remove", name, absent(err))
	}
	return nil
}

// remove unlinks one file, syncs its folder and takes away the folders that are empty now.
func (l *Local) remove(name string) error {
	dir, base := path.Split(name)
	d, err := l.openDir(path.Clean(dir))
	if err != nil {
		return err
	}
	defer d.close()
	info, err := d.root.Lstat(base)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fs.ErrNotExist
	}
	if err := d.root.Remove(base); err != nil {
		return err
	}
	if err := d.sync(); err != nil {
		return err
	}
	return l.removeEmpty(path.Clean(dir), func(string) bool { return true })
}

// do takes one step of writing. Tests come in between to crash, or to have the step fail.
func (l *Local) do(step string, call func() error) error {
	if l.step != nil {
		if err := l.step(step); err != nil {
			return err
		}
	}
	return call()
}

// check is what every method does first.
func check(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("object %q: %w", name, err)
	}
	return nil
}

// fail adds what was being done, to which object, and where. Names of temporary files that os puts into its errors say
// nothing to the reader, so only the cause is kept.
func (l *Local) fail(doing, name string, err error) error {
	return fmt.Errorf("%s %q in %s: %w", doing, name, l.dir, cause(err))
}

// cause strips the operation and path that os adds.
func cause(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return cause(e.Err)
	case *os.LinkError:
		return cause(e.Err)
	case *os.SyscallError:
		return cause(e.Err)
	}
	return err
}

// also adds what else went wrong, while cleaning up after err; either may be nil.
func also(err, left error) error {
	if err == nil || left == nil {
		return cmp.Or(err, left)
	}
	return fmt.Errorf("%w; then: %w", cause(err), cause(left))
}

// absent makes "a parent is a file" what it means for an object: it is not there.
func absent(err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return fs.ErrNotExist
	}
	return err
}
