package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/mbwrap/mbwrap/pipeline"
)

// Modes of what is made, which are those of mbstream; the umask applies.
const (
	fileMode fs.FileMode = 0o640
	dirMode  fs.FileMode = 0o700
)

const (
	maxWriters  = 8
	opsQueued   = 256 // operations that may wait for a writer; their bytes are bounded by the pool they lie in
	openHandles = 32  // descriptors of all writers together
)

// tree writes files below a root on several goroutines. Each file belongs to one of them, so that the operations on it
// stay in order; what concerns more than one file goes through a barrier. Payload is not copied: it is written from the
// buffer that the decoder filled, which is released afterwards.
//
// Its methods belong to one goroutine. The first error of any writer is returned by every later call.
type tree struct {
	root    *os.Root
	writers []*writer
	running sync.WaitGroup
	first   atomic.Pointer[error]

	raw   *pipeline.Raw       // the buffer that pieces for write lie in
	dirs  map[string]struct{} // directories known to be there
	dirty bool                // something was queued since the last barrier

	journal *journal // told by the writers what they have written and what is complete
}

// file is a file that is being written. The first part belongs to the tree's goroutine, the second to the writer's.
type file struct {
	path    string // below the root
	version int    // number in the stream
	writer  *writer
	size    int64 // bytes, holes at its end included
	next    int64 // where the next payload must go; only kept where no xbstream.Checker sees to it

	handle  *os.File
	written int64 // end of the last byte that was written
	holes   holes
}

// newTree starts writers below root; the caller must call close.
func newTree(root *os.Root, writers int, j *journal) *tree {
	writers = min(max(writers, 1), maxWriters)
	t := &tree{root: root, dirs: map[string]struct{}{".": {}}, journal: j}
	for range writers {
		w := &writer{tree: t, ops: make(chan op, opsQueued), limit: openHandles / writers}
		t.writers = append(t.writers, w)
		t.running.Go(w.run)
	}
	return t
}

// fail keeps the first error.
func (t *tree) fail(err error) { t.first.CompareAndSwap(nil, &err) }

// failed returns the first error of a writer.
func (t *tree) failed() error {
	if err := t.first.Load(); err != nil {
		return *err
	}
	return nil
}

// close waits until everything that was queued is done and ends the writers.
func (t *tree) close() error {
	for _, w := range t.writers {
		close(w.ops)
	}
	t.running.Wait()
	return t.failed()
}

// create begins a file that must not be there yet. Its directory is made if necessary.
func (t *tree) create(name string, version int) (*file, error) {
	if err := notReserved(name); err != nil {
		return nil, err
	}
	if err := t.makeDir(path.Dir(name)); err != nil {
		return nil, err
	}
	f := &file{path: name, version: version, writer: t.idlest()}
	f.holes.possible = mayBeCompressed(name)
	return f, t.send(op{kind: opCreate, file: f})
}

// notReserved refuses names that would be in the way when the files are moved into the target, or when something is
// written beside them that was salvaged.
func notReserved(name string) error {
	switch first, _, _ := strings.Cut(name, "/"); first {
	case unfinishedName, lostFound, asideName, lostListName:
		return fmt.Errorf("file %q: %w", name, ErrReserved)
	}
	return nil
}

// write puts a piece of the current buffer at offset.
func (t *tree) write(f *file, offset int64, data []byte) error {
	f.size = max(f.size, offset+int64(len(data)))
	if t.raw != nil {
		t.raw.Retain() // released by the writer
	}
	return t.send(op{kind: opWrite, file: f, offset: offset, data: data, raw: t.raw})
}

// end completes a file.
func (t *tree) end(f *file) error {
	return t.send(op{kind: opEnd, file: f, offset: f.size})
}

// drop takes a file away that was begun and can't be completed.
func (t *tree) drop(f *file) error { return t.send(op{kind: opDrop, file: f}) }

func (t *tree) send(o op) error {
	t.dirty = true
	w := o.file.writer
	w.queued.Add(int64(len(o.data)) + 1)
	w.ops <- o
	return t.failed()
}

// idlest returns the writer with the least to do.
func (t *tree) idlest() *writer {
	best := t.writers[0]
	for _, w := range t.writers[1:] {
		if w.queued.Load() < best.queued.Load() {
			best = w
		}
	}
	return best
}

// barrier returns when everything that was queued before is done.
func (t *tree) barrier() error {
	if t.dirty {
		done := make(chan struct{}, len(t.writers))
		for _, w := range t.writers {
			w.ops <- op{kind: opBarrier, done: done}
		}
		for range t.writers {
			<-done
		}
		t.dirty = false
	}
	return t.failed()
}

// makeDir makes a directory and those above it.
func (t *tree) makeDir(dir string) error {
	if _, known := t.dirs[dir]; known {
		return nil
	}
	if err := t.root.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("make directory %q: %w", dir, err)
	}
	for ; dir != "."; dir = path.Dir(dir) {
		t.dirs[dir] = struct{}{}
	}
	return nil
}

// rename moves an ended file; one that is not there is left out, and one that is in the way is replaced.
func (t *tree) rename(from, to string) error {
	if err := notReserved(to); err != nil {
		return err
	}
	if err := t.barrier(); err != nil {
		return err
	}
	info, err := t.root.Lstat(from)
	if absent(err) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("rename %q: %w", from, err)
	}
	if err := t.makeDir(path.Dir(to)); err != nil {
		return err
	}
	if err := t.root.Rename(from, to); err != nil {
		return fmt.Errorf("rename %q to %q: %w", from, to, err)
	}
	return t.prune(path.Dir(from))
}

// remove removes a file, a directory with all in it, or, when name ends in "*", the files of one directory whose names
// begin so. What is not there is left out.
func (t *tree) remove(name string) error {
	if err := t.barrier(); err != nil {
		return err
	}
	prefix, star := strings.CutSuffix(name, "*")
	var err error
	if star {
		err = t.removePrefix(prefix)
	} else {
		err = t.root.RemoveAll(name)
	}
	if err != nil && !absent(err) {
		return fmt.Errorf("remove %q: %w", name, err)
	}
	t.forget(name)
	return t.prune(path.Dir(name))
}

// unlink removes one ended file; one that is not there is left out.
func (t *tree) unlink(name string) error {
	if err := t.barrier(); err != nil {
		return err
	}
	if err := t.root.Remove(name); err != nil && !absent(err) {
		return fmt.Errorf("replace %q: %w", name, err)
	}
	return nil
}

// removePrefix removes the files whose names begin with prefix.
func (t *tree) removePrefix(prefix string) error {
	dir, begin := path.Split(prefix)
	dir = path.Clean(dir)
	d, err := t.root.Open(dir)
	if err != nil {
		return err
	}
	entries, err := d.ReadDir(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), begin) {
			if err := t.root.Remove(path.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// prune removes a directory, and those above it, as long as they have become empty: the stream knows files only.
func (t *tree) prune(dir string) error {
	for ; dir != "."; dir = path.Dir(dir) {
		err := t.root.Remove(dir)
		switch {
		case absent(err):
		case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST):
			return nil
		case err != nil:
			return fmt.Errorf("remove empty directory %q: %w", dir, err)
		}
		t.forget(dir)
	}
	return nil
}

// forget takes a directory that is gone, and those below it, out of the known ones.
func (t *tree) forget(dir string) {
	if _, known := t.dirs[dir]; !known {
		return
	}
	for d := range t.dirs {
		if d == dir || strings.HasPrefix(d, dir+"/") {
			delete(t.dirs, d)
		}
	}
}

// absent tells whether err says that there is no such file, or no such directory above it.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
