package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/sinks"
)

// Pending is a backup that is being written, to one or more repositories in one pass. It is listed nowhere until Commit.
// It belongs to one goroutine at a time; Volume's writers to one other.
//
// A repository that fails drops out with its error while the others go on; only when the last one is gone does
// writing fail.
type Pending struct {
	ID      string
	Server  string
	suffix  string // of volumes: the codec's
	members []*member
	volumes []Object
}

// member is one repository's part of a pending backup.
type member struct {
	repository *Repository
	lock       sinks.Lock
	names      []string // objects committed so far
	err        error    // why it dropped out
	committed  bool
}

// RepositoryError says that a repository failed.
type RepositoryError struct {
	Location string
	Err      error
}

func (e *RepositoryError) Error() string { return fmt.Sprintf("repository %s: %v", e.Location, e.Err) }
func (e *RepositoryError) Unwrap() error { return e.Err }

var errNoRepository = errors.New("no repository given")

// Begin starts a backup of the server in all of the repositories and takes their locks. The error matches
// *sinks.LockedError when another run holds one. The pending backup must be ended by Commit or Abort.
func Begin(ctx context.Context, repositories []*Repository, server string, o BeginOptions) (*Pending, error) {
	if err := CheckServer(server); err != nil {
		return nil, err
	}
	if len(repositories) == 0 {
		return nil, errNoRepository
	}
	p := &Pending{Server: server, suffix: o.Codec.Suffix()}
	for _, r := range repositories {
		m := &member{repository: r}
		p.members = append(p.members, m)
		locker, ok := r.sink.(sinks.Locker)
		if !ok {
			continue
		}
		lock, err := locker.Lock(ctx, join(server, lockObject), o.Owner)
		if err != nil {
			return nil, errors.Join(&RepositoryError{r.location, err}, p.unlock())
		}
		m.lock = lock
	}
	if err := p.chooseID(ctx, o); err != nil {
		return nil, errors.Join(err, p.unlock())
	}
	return p, nil
}

// BeginOptions says what kind of backup begins.
type BeginOptions struct {
	Type    string // Full or Incremental
	Started time.Time
	Codec   *codec.Codec
	Owner   []byte // who holds the lock, for the message that another run gets
}

// chooseID finds the first free ID at or after the start time.
func (p *Pending) chooseID(ctx context.Context, o BeginOptions) error {
	var taken []string
	for _, m := range p.members {
		entries, err := m.repository.entries(ctx, p.Server)
		if err != nil {
			return err
		}
		for _, e := range entries {
			taken = append(taken, e.id)
		}
	}
	for started := o.Started; ; started = started.Add(time.Second) {
		p.ID = newID(started, o.Type)
		if !slices.Contains(taken, p.ID) {
			return nil
		}
	}
}

// living returns the members that have not failed.
func (p *Pending) living() []*member {
	return slices.DeleteFunc(slices.Clone(p.members), func(m *member) bool { return m.err != nil })
}

// drop takes m out of the run for err. It returns the error of all members when m was the last.
func (p *Pending) drop(m *member, err error) error {
	m.err = &RepositoryError{m.repository.location, err}
	if len(p.living()) > 0 {
		return nil
	}
	return errors.Join(p.Failed()...)
}

// Failed returns the errors of the repositories that dropped out.
func (p *Pending) Failed() []error {
	var all []error
	for _, m := range p.members {
		if m.err != nil {
			all = append(all, m.err)
		}
	}
	return all
}

// Volumes returns the writers for pipeline.Pack. Their objects are written under ctx.
func (p *Pending) Volumes(ctx context.Context) *Volumes { return &Volumes{p, ctx} }

// Volumes opens the volumes of a pending backup; it is a pipeline.Volumes.
type Volumes struct {
	pending *Pending
	ctx     context.Context
}

// Open begins volume n.
func (v *Volumes) Open(n int) (pipeline.Volume, error) {
	return v.pending.create(v.ctx, fmt.Sprintf(volumePattern, n, v.pending.suffix), func(o Object) {
		v.pending.volumes = append(v.pending.volumes, o)
	})
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
	for _, m := range w.pending.living() {
		if err := w.writers[m].Commit(); err != nil {
			if err := w.fail(m, err); err != nil {
				return err
			}
			continue
		}
		m.names = append(m.names, w.name)
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
	if _, err := w.Write(data); err != nil {
		return object, errors.Join(err, w.Abort())
	}
	return object, w.Close()
}

// Commit writes the index, the log (zstd frames), SHA256SUMS and, last, the manifest, whose objects it fills in. With
// it the backup is complete. m must say everything else. Repositories that fail now drop out; the error is nil if at
// least one holds the backup, and Failed tells the others. The locks are freed.
func (p *Pending) Commit(ctx context.Context, m *Manifest, index, log []byte) error {
	err := p.commit(ctx, m, index, log)
	return errors.Join(err, p.finish(ctx))
}

func (p *Pending) commit(ctx context.Context, m *Manifest, index, log []byte) (err error) {
	m.Format, m.ID, m.Server, m.Volumes = Format, p.ID, p.Server, p.volumes
	m.StoredBytes = 0
	for _, v := range p.volumes {
		m.StoredBytes += v.Size
	}
	packed, err := compressIndex(index)
	if err != nil {
		return err
	}
	if m.Index, err = p.put(ctx, indexObject, packed); err != nil {
		return err
	}
	if m.Log, err = p.put(ctx, logObject, log); err != nil {
		return err
	}
	if _, err = p.put(ctx, SumsObject, m.Sums()); err != nil {
		return err
	}
	data, err := encodeManifest(m)
	if err != nil {
		return err
	}
	if _, err := decodeManifest(data); err != nil {
		return fmt.Errorf("catalog: internal error: a manifest that could not be read again: %w", err)
	}
	if _, err = p.put(ctx, ManifestObject, data); err != nil {
		return err
	}
	for _, m := range p.living() {
		m.committed = true
	}
	return nil
}

// indexLevel is zstd's level for the index: it is small, and written once.
const indexLevel = 3

// compressIndex returns the stored form of an encoded index: zstd frames of some MiB each, so that no reader needs
// much memory at a time.
func compressIndex(index []byte) ([]byte, error) {
	zstd, err := codec.Lookup("zstd")
	if err != nil {
		return nil, err
	}
	const block = 4 << 20
	c, err := zstd.NewCompressor(codec.CompressorOptions{Level: indexLevel, BlockSize: block})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var out []byte
	for part := range slices.Chunk(index, block) {
		if out, err = c.Append(out, part); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Abort removes everything that was written and frees the locks. It is harmless after Commit. The error says what could
// not be removed.
func (p *Pending) Abort(ctx context.Context) error { return p.finish(ctx) }

// finish removes what uncommitted members hold and frees all locks. It works even when ctx has ended.
func (p *Pending) finish(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var all []error
	for _, m := range p.members {
		if m.committed {
			continue
		}
		// The manifest goes first: should the rest not succeed, no one takes the backup for whole.
		for _, name := range slices.Backward(m.names) {
			err := m.repository.sink.Remove(ctx, join(p.Server, p.ID, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				all = append(all, &RepositoryError{m.repository.location, fmt.Errorf("remove leftovers: %w", err)})
			}
		}
		m.names = nil
	}
	return errors.Join(append(all, p.unlock())...)
}

// unlock frees the locks that are held.
func (p *Pending) unlock() error {
	var all []error
	for _, m := range p.members {
		if m.lock != nil {
			if err := m.lock.Unlock(); err != nil {
				all = append(all, &RepositoryError{m.repository.location, err})
			}
			m.lock = nil
		}
	}
	return errors.Join(all...)
}
