package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/encrypt"
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
	suffix  string // of volumes: the codec's, and that of age
	members []*member
	volumes []Object

	key        *encrypt.Key // nil if it is not encrypted
	sealedKey  []byte       // key.age
	recipients []string
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
// *sinks.LockedError when another run holds one. A repository that fails otherwise drops out unless it is the last. The
// pending backup must be ended by Commit or Abort.
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
		var held *sinks.LockedError
		lock, err := locker.Lock(ctx, join(server, lockObject), o.Owner)
		switch {
		case errors.As(err, &held):
			return nil, errors.Join(&RepositoryError{r.location, err}, p.unlock())
		case err != nil:
			m.err = &RepositoryError{r.location, err}
		default:
			m.lock = lock
		}
	}
	// Sealing comes behind the locks: who waits for them tries often, and a passphrase costs a second each time.
	if err := errors.Join(p.seal(o), p.chooseID(ctx, o)); err != nil {
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

	// Key is the identity that is made for this backup, and Recipients are those who can open it. Both are nil for a
	// backup that is not encrypted.
	Key        *encrypt.Key
	Recipients *encrypt.Recipients
}

var errHalfEncrypted = errors.New("a key without recipients, or recipients without a key")

// seal makes key.age before anything is written: recipients that can't be used are known before there is data.
func (p *Pending) seal(o BeginOptions) (err error) {
	if o.Key == nil && o.Recipients == nil {
		return nil
	}
	if o.Key == nil || o.Recipients == nil {
		return errHalfEncrypted
	}
	if p.sealedKey, err = o.Key.SealTo(o.Recipients); err != nil {
		return err
	}
	p.key, p.recipients, p.suffix = o.Key, o.Recipients.Strings(), p.suffix+sealedSuffix
	return errors.Join(checkKey(keyOf(p.sealedKey)), checkRecipients(p.recipients))
}

// chooseID finds the first free ID at or after the start time.
func (p *Pending) chooseID(ctx context.Context, o BeginOptions) error {
	if !isID(newID(o.Started, o.Type)) {
		return fmt.Errorf("no backup can be of type %q and start at %v", o.Type, o.Started)
	}
	var taken []string
	for _, m := range p.living() {
		entries, err := m.repository.entries(ctx, p.Server)
		if err != nil {
			m.err = &RepositoryError{m.repository.location, err}
		}
		for _, e := range entries {
			taken = append(taken, e.id)
		}
	}
	if len(p.living()) == 0 {
		return errors.Join(p.Failed()...)
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
	return p.lost()
}

// lost returns the errors of all members when none is left.
func (p *Pending) lost() error {
	if len(p.living()) > 0 {
		return nil
	}
	return errors.Join(p.Failed()...)
}

// Failed returns the errors of the repositories that dropped out and, after Commit, of those that could not be tidied
// up.
func (p *Pending) Failed() []error {
	var all []error
	for _, m := range p.members {
		if m.err != nil {
			all = append(all, m.err)
		}
	}
	return all
}

// Commit writes key.age of an encrypted backup, the index, the log (zstd frames), SHA256SUMS and, last, the manifest, in
// which it fills in the objects and what is known of the encryption. With it the backup is complete. m must say everything else. Repositories that fail now drop out; the error is nil if at
// least one holds the backup, and Failed tells the others. The locks are freed.
func (p *Pending) Commit(ctx context.Context, m *Manifest, index, log []byte) error {
	if err := p.commit(ctx, m, index, log); err != nil {
		return errors.Join(err, p.Abort(ctx))
	}
	for _, m := range p.members {
		if err := m.finish(ctx, join(p.Server, p.ID)); err != nil {
			m.err = errors.Join(m.err, err) // told by Failed: the backup itself is safe
		}
	}
	return nil
}

func (p *Pending) commit(ctx context.Context, m *Manifest, index, log []byte) (err error) {
	m.Format, m.ID, m.Server, m.Volumes = Format, p.ID, p.Server, p.volumes
	m.StoredBytes = 0
	for _, v := range p.volumes {
		m.StoredBytes += v.Size
	}
	if err := p.commitKey(ctx, m); err != nil {
		return err
	}
	packed, err := compressIndex(index)
	if err != nil {
		return err
	}
	if m.Index, err = p.putSealed(ctx, indexObject, packed); err != nil {
		return err
	}
	if m.Log, err = p.putSealed(ctx, logObject, log); err != nil {
		return err
	}
	if _, err = p.put(ctx, SumsObject, m.Sums()); err != nil {
		return err
	}
	data, err := encodeManifest(m, func(data []byte) []byte { return p.key.MAC(manifestPurpose, data) })
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

// commitKey writes key.age.
func (p *Pending) commitKey(ctx context.Context, m *Manifest) error {
	m.Encrypted, m.Recipients, m.Key = p.key != nil, p.recipients, nil
	if p.key == nil {
		return nil
	}
	key, err := p.put(ctx, KeyObject, p.sealedKey)
	m.Key = &key
	return err
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

// Abort removes everything that was written and frees the locks, even when ctx has ended. It is harmless after Commit.
// The error says what could not be removed.
func (p *Pending) Abort(ctx context.Context) error {
	var all []error
	for _, m := range p.members {
		all = append(all, m.finish(ctx, join(p.Server, p.ID)))
	}
	return errors.Join(all...)
}

// unlock frees the locks that are held.
func (p *Pending) unlock() error {
	var all []error
	for _, m := range p.members {
		all = append(all, m.unlock())
	}
	return errors.Join(all...)
}

// finish removes what an uncommitted member holds in the folder and frees its lock.
func (m *member) finish(ctx context.Context, folder string) error {
	ctx = context.WithoutCancel(ctx)
	var all []error
	if !m.committed {
		// The manifest goes first: should the rest not succeed, no one takes the backup for whole.
		for _, name := range slices.Backward(m.names) {
			err := m.repository.sink.Remove(ctx, join(folder, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				all = append(all, &RepositoryError{m.repository.location, fmt.Errorf("remove leftovers: %w", err)})
			}
		}
		m.names = nil
	}
	return errors.Join(append(all, m.unlock())...)
}

// unlock frees the lock if it is held.
func (m *member) unlock() error {
	if m.lock == nil {
		return nil
	}
	lock := m.lock
	m.lock = nil
	if err := lock.Unlock(); err != nil {
		return &RepositoryError{m.repository.location, err}
	}
	return nil
}
