package sinks

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// renameNoReplace gives the file from, in d, the name to, unless that is taken: then the error is fs.ErrExist. It uses
// the first way that the file system has.
func renameNoReplace(d *folder, from, to string) error {
	err := renameExclusive(d, from, to)
	if unsupported(err) {
		err = linkAndUnlink(d, from, to)
	}
	if unsupported(err) {
		err = lookAndRename(d, from, to)
	}
	return err
}

// linkAndUnlink is for file systems without RENAME_NOREPLACE, such as NFS. A crash in between leaves both names, the
// whole object and a leftover, which share their bytes.
func linkAndUnlink(d *folder, from, to string) error {
	if err := d.root.Link(from, to); err != nil && !(errors.Is(err, fs.ErrExist) && linked(d, from, to)) {
		return err
	}
	if err := d.root.Remove(from); err != nil {
		return also(err, d.root.Remove(to))
	}
	return nil
}

// linked reports whether two names are one file. NFS may do as asked, lose the answer, ask again and then say that the
// name is taken: by ourselves.
func linked(d *folder, a, b string) bool {
	x, errX := d.root.Lstat(a)
	y, errY := d.root.Lstat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// lookAndRename is for those that have no hard links either, some of FUSE. Writers on this machine take turns; one on
// another machine that shares the file system could come in between the two steps.
func lookAndRename(d *folder, from, to string) error {
	if err := flock(d.file, unix.LOCK_EX); err != nil && !noLocks(err) {
		return err
	}
	defer flock(d.file, unix.LOCK_UN) // closing the folder frees it too
	switch _, err := d.root.Lstat(to); {
	case err == nil:
		return fs.ErrExist
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return d.root.Rename(from, to)
}

// unsupported reports whether err says that the file system can't do such a thing at all.
func unsupported(err error) bool {
	for _, e := range []error{syscall.EINVAL, syscall.ENOSYS, syscall.ENOTSUP, syscall.EPERM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
