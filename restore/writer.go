package restore

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/mbwrap/mbwrap/pipeline"
)

type opKind int

const (
	opCreate opKind = iota
	opWrite
	opEnd
	opDrop
	opBarrier
)

// op is one operation for a writer. The writer releases raw when it is done with data.
type op struct {
	kind   opKind
	file   *file
	offset int64 // opWrite: place of data; opEnd: size of the file
	data   []byte
	raw    *pipeline.Raw
	done   chan<- struct{} // opBarrier
}

// writer does the operations on its files in order, on one goroutine. It keeps no more than limit descriptors open: a
// file that was not written to for long is closed and opened again later.
type writer struct {
	tree   *tree
	ops    chan op
	queued atomic.Int64 // bytes and operations that wait, roughly
	limit  int
	open   []*file // those with a handle, the least recently used first
}

// run works until ops is closed. After an error it only releases what it is sent.
func (w *writer) run() {
	for o := range w.ops {
		if w.tree.failed() == nil {
			if err := w.do(o); err != nil {
				w.tree.fail(err)
			}
		}
		if o.raw != nil {
			o.raw.Release()
		}
		if o.done != nil {
			o.done <- struct{}{} // never blocks: it has a place for each writer
		}
		w.queued.Add(-int64(len(o.data)) - 1)
	}
	for _, f := range slices.Clone(w.open) { // only after a failure, or of a stream that was cut
		if err := w.shut(f); err != nil {
			w.tree.fail(err)
		}
	}
}

func (w *writer) do(o op) error {
	switch o.kind {
	case opCreate:
		return w.acquire(o.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	case opWrite:
		return w.write(o.file, o.offset, o.data)
	case opEnd:
		return w.end(o.file, o.offset)
	case opDrop:
		return w.drop(o.file)
	}
	return nil
}

// acquire opens f, after it has closed the file that was not used for the longest time when there are too many.
func (w *writer) acquire(f *file, flags int) error {
	if len(w.open) >= w.limit {
		if err := w.shut(w.open[0]); err != nil {
			return err
		}
	}
	handle, err := w.tree.root.OpenFile(f.path, flags, fileMode)
	if err != nil {
		return fmt.Errorf("create %q: %w", f.path, err)
	}
	f.handle = handle
	w.open = append(w.open, f)
	return nil
}

// use makes sure that f is open, and the most recently used.
func (w *writer) use(f *file) error {
	if f.handle == nil {
		return w.acquire(f, os.O_WRONLY)
	}
	if last := len(w.open) - 1; w.open[last] != f {
		i := slices.Index(w.open, f)
		copy(w.open[i:], w.open[i+1:])
		w.open[last] = f
	}
	return nil
}

// shut closes f's handle.
func (w *writer) shut(f *file) error {
	w.open = slices.DeleteFunc(w.open, func(o *file) bool { return o == f })
	err := f.handle.Close()
	f.handle = nil
	if err != nil {
		return fmt.Errorf("close %q: %w", f.path, err)
	}
	return nil
}

// write puts data at offset, and leaves holes where f wants them.
func (w *writer) write(f *file, offset int64, data []byte) error {
	if err := w.use(f); err != nil {
		return err
	}
	f.holes.see(offset, data)
	var err error
	if f.holes.wanted {
		err = eachSolid(data, offset, func(piece []byte, at int64) error { return f.put(piece, at) })
	} else {
		err = f.put(data, offset)
	}
	if err != nil {
		return fmt.Errorf("write %q at offset %d: %w", f.path, offset, err)
	}
	return nil
}

// put writes one piece.
func (f *file) put(data []byte, offset int64) error {
	n, err := f.handle.WriteAt(data, offset)
	f.written = max(f.written, offset+int64(n))
	f.writer.tree.journal.wrote(int64(n))
	return err
}

// end gives f its full size and closes it.
func (w *writer) end(f *file, size int64) error {
	if err := w.use(f); err != nil {
		return err
	}
	if f.written < size {
		if err := f.handle.Truncate(size); err != nil {
			return errors.Join(fmt.Errorf("set size of %q to %d: %w", f.path, size, err), w.shut(f))
		}
	}
	if err := w.shut(f); err != nil {
		return err
	}
	w.tree.journal.add(f.version, f.size)
	return nil
}

// drop closes and removes f.
func (w *writer) drop(f *file) error {
	if f.handle != nil {
		if err := w.shut(f); err != nil {
			return err
		}
	}
	if err := w.tree.root.Remove(f.path); err != nil && !absent(err) {
		return fmt.Errorf("remove %q: %w", f.path, err)
	}
	return nil
}
