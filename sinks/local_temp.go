package sinks

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
)

// tempPrefix begins the name of a file in the making.
const tempPrefix = reserved + "tmp-"

// tempFile is a file in the making.
type tempFile struct {
	name    string
	file    *os.File // written through; closed by finish
	alive   *os.File // holds the flock that says the writer lives, from birth to release
	renamed bool     // the name is gone
}

// newTempFile creates a file with a name of its own in d and locks it. The lock comes a moment after the file, and the
// file may have been taken for a leftover and removed in that moment: then another is made.
func newTempFile(d *folder, mode fs.FileMode) (*tempFile, error) {
	for {
		name := fmt.Sprintf("%s%d-%016x", tempPrefix, os.Getpid(), rand.Uint64())
		f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, defaultFileMode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t := &tempFile{name: name, file: f}
		linked, err := t.claim(d, mode)
		if err == nil && linked {
			return t, nil
		}
		if err = also(err, t.remove(d)); err != nil {
			return nil, err
		}
	}
}

// claim locks the new file and reports whether it still has its name.
func (t *tempFile) claim(d *folder, mode fs.FileMode) (linked bool, err error) {
	if err := lockAlive(t.file); err != nil {
		return false, err
	}
	if linked, err = sameFile(d, t.name, t.file); err != nil || !linked {
		return false, err
	}
	if mode != 0 {
		if err := t.file.Chmod(mode); err != nil {
			return false, err
		}
	}
	// A second descriptor of the same open file shares the lock, so that closing the first, which must be checked
	// before the file gets its final name, does not give the lock away.
	t.alive, err = duplicate(t.file)
	return err == nil, err
}

// finish compares the length, syncs and closes the file. Network and quota file systems may report a full disk as late
// as that, see MDEV-38562.
func (l *Local) finish(t *tempFile, size int64) error {
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != size {
		return fmt.Errorf("length is %d bytes but %d were written", info.Size(), size)
	}
	if err := l.do("sync", t.file.Sync); err != nil {
		return err
	}
	dropCache(t.file)
	return l.do("close", t.file.Close)
}

// remove closes the file without looking and deletes it, unless it has its final name already.
func (t *tempFile) remove(d *folder) error {
	t.file.Close() // given up: what it could tell does not matter, and twice is harmless
	if t.renamed {
		return nil
	}
	if err := d.root.Remove(t.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// release gives the lock away. Nothing was written through this descriptor, so its Close has nothing to tell.
func (t *tempFile) release() {
	if t.alive != nil {
		t.alive.Close()
	}
}
