package sinks

import (
	"context"
	"errors"
	"io/fs"
	"path"
)

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
		var temp *tempFile
		err = l.do("create", func() error {
			temp, err = newTempFile(dir, l.options.FileMode)
			return err
		})
		if err == nil {
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
	n := 0
	err := w.local.do("write", func() (err error) {
		n, err = w.temp.file.Write(p)
		return err
	})
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
	if err := w.local.finish(w.temp, w.size); err != nil {
		return err
	}
	dir, base := path.Dir(w.name), path.Base(w.name)
	err := w.local.do("rename", func() error { return renameNoReplace(w.dir, w.temp.name, base) })
	if err != nil {
		return err
	}
	w.temp.renamed = true
	if err := w.local.syncFolders(w.dir, dir); err != nil {
		return also(err, w.dir.root.Remove(base)) // not known to be durable: not to be seen
	}
	w.local.keep(dir)
	return nil
}

// syncFolders makes a new entry of d, the open directory name, durable.
func (l *Local) syncFolders(d *folder, name string) error {
	if err := l.do("sync folder", d.sync); err != nil {
		return err
	}
	return l.do("sync parents", func() error { return l.syncParents(name) })
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
	err = l.do("write", func() error {
		_, err := temp.file.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	if err := l.finish(temp, int64(len(data))); err != nil {
		return err
	}
	err = l.do("rename", func() error { return dir.root.Rename(temp.name, path.Base(name)) })
	if err != nil {
		return err
	}
	temp.renamed = true
	l.keep(path.Dir(name))
	return l.syncFolders(dir, path.Dir(name))
}
