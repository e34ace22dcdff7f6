package sinks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
)

// tempPrefix begins the name of a file in the making.
const tempPrefix = reserved + "tmp-"

// localWriter writes one object into a temporary file beside its final place.
type localWriter struct {
	local *Local
	ctx   context.Context
	name  string
	dir   *folder
	temp  *tempFile
	back  writeBack
	size  int64
	err   error // first error of Write, or the result of Commit
	ended bool
}

// Create begins an object; see Sink. A name that is taken already is refused here, one that is taken later by Commit.
func (l *Local) Create(ctx context.Context, name string) (Writer, error) {
	if err := check(ctx, name); err != nil {
		return nil, err
	}
	w, err := l.create(ctx, name)
	if err != nil {
		return nil, l.fail("create", name, err)
	}
	return w, nil
}

func (l *Local) create(ctx context.Context, name string) (*localWriter, error) {
	switch _, err := l.root.Lstat(name); {
	case err == nil:
		return nil, fs.ErrExist
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	dir, temp, err := l.begin(path.Dir(name))
	if err != nil {
		return nil, err
	}
	return &localWriter{local: l, ctx: ctx, name: name, dir: dir, temp: temp}, nil
}

// begin opens the directory name, making it if needed, and starts a temporary file in it.
func (l *Local) begin(name string) (*folder, *tempFile, error) {
	const attempts = 100
	err := error(fs.ErrNotExist)
	// The new directory may be removed again, as empty, by another writer that gives up: then it is made again.
	for try := 0; try < attempts && errors.Is(err, fs.ErrNotExist); try++ {
		var dir *folder
		if dir, err = l.makeDir(name); err != nil {
			break
		}
		l.step("create")
		var temp *tempFile
		if temp, err = newTempFile(dir, l.options.FileMode); err == nil {
			return dir, temp, nil
		}
		dir.close()
	}
	return nil, nil, also(err, l.removeMade(name))
}

// Write appends p to the temporary file.
func (w *localWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if w.ended { // committed
		return 0, w.local.fail("write committed", w.name, fs.ErrClosed)
	}
	if err := w.ctx.Err(); err != nil {
		return 0, w.fail("write", err)
	}
	w.local.step("write")
	n, err := w.temp.file.Write(p)
	w.size += int64(n)
	if err == nil {
		err = w.back.wrote(w.temp.file, int64(n))
	}
	if err != nil {
		return n, w.fail("write", err)
	}
	return n, nil
}

// fail notes the first error.
func (w *localWriter) fail(doing string, err error) error {
	w.err = w.local.fail(doing, w.name, err)
	return w.err
}

// Commit makes the object durable and visible; see Writer.
func (w *localWriter) Commit() error {
	if w.ended {
		return w.err
	}
	if w.err == nil {
		if err := w.commit(); err != nil {
			w.fail("commit", err)
		}
	}
	if w.err != nil {
		w.err = also(w.err, w.Abort())
		return w.err
	}
	w.end()
	return nil
}

// commit takes the steps in the order that makes each failure harmless.
func (w *localWriter) commit() error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if err := w.temp.finish(w.size, w.local.step); err != nil {
		return err
	}
	base := path.Base(w.name)
	w.local.step("rename")
	if err := renameNoReplace(w.dir, w.temp.name, base); err != nil {
		return err
	}
	w.temp.renamed = true
	w.local.keep(path.Dir(w.name))
	w.local.step("sync directory")
	if err := w.local.syncFolders(w.dir, path.Dir(w.name)); err != nil {
		return also(err, w.dir.root.Remove(base)) // not known to be durable: not to be seen
	}
	w.local.step("done")
	return nil
}

// syncFolders makes a new entry of d, the open directory name, durable.
func (l *Local) syncFolders(d *folder, name string) error {
	if err := d.sync(); err != nil {
		return err
	}
	return l.syncParents(name)
}

// Abort removes what was written; see Writer.
func (w *localWriter) Abort() error {
	if w.ended {
		return nil
	}
	err := w.temp.remove(w.dir)
	w.end()
	err = also(err, w.local.removeMade(path.Dir(w.name)))
	if w.err == nil {
		w.fail("write aborted", fs.ErrClosed) // for a Write or Commit that should not come
	}
	if err != nil {
		return w.local.fail("abort", w.name, err)
	}
	return nil
}

// end releases the descriptors.
func (w *localWriter) end() {
	w.ended = true
	w.temp.release()
	w.dir.close()
}

// Replace stores a small object as a whole; see Replacer.
func (l *Local) Replace(ctx context.Context, name string, data []byte) error {
	if err := check(ctx, name); err != nil {
		return err
	}
	if err := l.replace(name, data); err != nil {
		return l.fail("replace", name, err)
	}
	return nil
}

func (l *Local) replace(name string, data []byte) (err error) {
	dir, temp, err := l.begin(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.close()
	defer temp.release()
	defer func() {
		if err != nil {
			err = also(err, also(temp.remove(dir), l.removeMade(path.Dir(name))))
		}
	}()
	l.step("write")
	if _, err := temp.file.Write(data); err != nil {
		return err
	}
	if err := temp.finish(int64(len(data)), l.step); err != nil {
		return err
	}
	l.step("rename")
	if err := dir.root.Rename(temp.name, path.Base(name)); err != nil {
		return err
	}
	temp.renamed = true
	l.keep(path.Dir(name))
	l.step("sync directory")
	return l.syncFolders(dir, path.Dir(name))
}

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
func (t *tempFile) finish(size int64, step func(string)) error {
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != size {
		return fmt.Errorf("length is %d bytes but %d were written", info.Size(), size)
	}
	step("sync")
	if err := t.file.Sync(); err != nil {
		return err
	}
	dropCache(t.file)
	step("close")
	return t.file.Close()
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
