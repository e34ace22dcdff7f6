package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"

	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/sinks"
)

// Volumes returns the writers for pipeline.Pack. Their objects are written under ctx.
func (p *Pending) Volumes(ctx context.Context) *Volumes { return &Volumes{p, ctx} }

// Volumes opens the volumes of a pending backup; it is a pipeline.Volumes.
type Volumes struct {
	pending *Pending
	ctx     context.Context
}

// Open begins volume n.
func (v *Volumes) Open(n int) (pipeline.Volume, error) {
	name, err := volumeName(n, v.pending.suffix)
	if err != nil {
		return nil, err
	}
	done := func(o Object) { v.pending.volumes = append(v.pending.volumes, o) }
	if v.pending.key != nil {
		return v.pending.createSealed(v.ctx, name, done)
	}
	return v.pending.create(v.ctx, name, done)
}

// objectWriter writes an object to every living member, and hashes it on the way.
type objectWriter struct {
	pending *Pending
	name    string
	writers map[*member]sinks.Writer
	hash    hash.Hash
	size    int64
	done    func(Object)
	closed  bool
}

// create opens a new object in every living member. done receives what was written once Close succeeded.
func (p *Pending) create(ctx context.Context, name string, done func(Object)) (*objectWriter, error) {
	w := &objectWriter{pending: p, name: name, writers: make(map[*member]sinks.Writer), hash: sha256.New(), done: done}
	for _, m := range p.living() {
		writer, err := m.repository.sink.Create(ctx, join(p.Server, p.ID, name))
		if err == nil {
			w.writers[m] = writer
		} else if err := p.drop(m, err); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Write writes data to every living member while it is hashed on another core.
func (w *objectWriter) Write(data []byte) (int, error) {
	if err := w.pending.lost(); err != nil {
		return 0, err
	}
	hashed := make(chan struct{})
	go func() {
		defer close(hashed)
		w.hash.Write(data)
	}()
	defer func() { <-hashed }()
	for _, m := range w.pending.living() {
		n, err := w.writers[m].Write(data)
		if err == nil && n != len(data) {
			err = io.ErrShortWrite
		}
		if err != nil {
			if err := w.fail(m, err); err != nil {
				return 0, err
			}
		}
	}
	w.size += int64(len(data))
	return len(data), nil
}

// fail ends m's part of the object and drops m.
func (w *objectWriter) fail(m *member, err error) error {
	return w.pending.drop(m, errors.Join(err, w.writers[m].Abort()))
}

// Close commits the object in every living member.
func (w *objectWriter) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	if err := w.pending.lost(); err != nil {
		return err
	}
	for _, m := range w.pending.living() {
		err := w.writers[m].Commit()
		if !errors.Is(err, fs.ErrExist) {
			m.names = append(m.names, w.name) // also after an error: its answer alone may have been lost
		}
		if err != nil {
			if err := w.fail(m, err); err != nil {
				return err
			}
		}
	}
	w.done(Object{w.name, w.size, hex.EncodeToString(w.hash.Sum(nil))})
	return nil
}

// Abort gives the object up in every member.
func (w *objectWriter) Abort() error {
	w.closed = true
	var all []error
	for m, writer := range w.writers {
		if err := writer.Abort(); err != nil {
			all = append(all, &RepositoryError{m.repository.location, err})
		}
	}
	return errors.Join(all...)
}

// put writes a whole object.
func (p *Pending) put(ctx context.Context, name string, data []byte) (object Object, err error) {
	w, err := p.create(ctx, name, func(o Object) { object = o })
	if err != nil {
		return object, err
	}
	err = fill(w, data)
	return object, err
}

// putSealed is put for an object that is sealed when the backup is encrypted.
func (p *Pending) putSealed(ctx context.Context, name string, data []byte) (object Object, err error) {
	if p.key == nil {
		return p.put(ctx, name, data)
	}
	w, err := p.createSealed(ctx, name+sealedSuffix, func(o Object) { object = o })
	if err != nil {
		return object, err
	}
	err = fill(w, data)
	return object, err
}

// fill writes all of an object and ends it.
func fill(w pipeline.Volume, data []byte) error {
	if _, err := w.Write(data); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close()
}
