package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/mbwrap/mbwrap/sinks"
)

// Repository is a place that holds backups. Its methods may be called by several goroutines.
type Repository struct {
	sink     sinks.Sink
	location string
}

// repositoryMark is the content of mbwrap.json.
type repositoryMark struct {
	Repository string `json:"repository"`
	Format     int    `json:"format"`
}

const repositoryKind = "mbwrap"

// Small objects are read whole; these bound what is read for one, in bytes.
const (
	maxMark     = 4 << 10
	maxManifest = 64 << 20
)

// Open opens the repository in sink, which location names in messages. The error matches ErrNotRepository when there is
// none.
func Open(ctx context.Context, sink sinks.Sink, location string) (*Repository, error) {
	data, err := readObject(ctx, sink, RepositoryObject, maxMark)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: it has no %s", location, ErrNotRepository, RepositoryObject)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", location, err)
	}
	var mark repositoryMark
	if err := unseal(data, &mark); err != nil || mark.Repository != repositoryKind || mark.Format < 1 {
		return nil, fmt.Errorf("%s: %w: its %s is damaged", location, ErrNotRepository, RepositoryObject)
	}
	if mark.Format > Format {
		return nil, fmt.Errorf("%s: repository format %d: %w", location, mark.Format, ErrFormat)
	}
	return &Repository{sink, location}, nil
}

// Init makes sink a repository if it is one already or holds nothing yet, and opens it. created tells which. The error
// matches ErrNotEmpty when sink holds other things.
func Init(ctx context.Context, sink sinks.Sink, location string) (r *Repository, created bool, err error) {
	r, err = Open(ctx, sink, location)
	if !errors.Is(err, ErrNotRepository) {
		return r, false, err
	}
	objects, lerr := sink.List(ctx, "")
	if lerr != nil {
		return nil, false, fmt.Errorf("%s: %w", location, lerr)
	}
	if slices.ContainsFunc(objects, func(o sinks.Info) bool { return o.Name == RepositoryObject }) {
		r, err = Open(ctx, sink, location) // damaged, or another's, made since we looked
		return r, false, err
	}
	if len(objects) > 0 {
		return nil, false, fmt.Errorf("%s: %w: it holds %q", location, ErrNotEmpty, objects[0].Name)
	}
	data, err := seal(repositoryMark{repositoryKind, Format})
	if err != nil {
		return nil, false, err
	}
	werr := writeObject(ctx, sink, RepositoryObject, data)
	if werr != nil && !errors.Is(werr, fs.ErrExist) {
		return nil, false, fmt.Errorf("%s: %w", location, werr)
	}
	r, err = Open(ctx, sink, location)
	return r, err == nil && werr == nil, err
}

// Location returns the name that the repository has in messages.
func (r *Repository) Location() string { return r.location }

// Sink returns the sink below the repository.
func (r *Repository) Sink() sinks.Sink { return r.sink }

// Servers returns the names under which backups are filed, sorted.
func (r *Repository) Servers(ctx context.Context) ([]string, error) {
	entries, err := r.entries(ctx, "")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !slices.Contains(names, e.server) {
			names = append(names, e.server)
		}
	}
	slices.Sort(names)
	return names, nil
}

// entry is a backup's folder as the listing shows it.
type entry struct {
	server, id                  string
	manifest, verified, rekeyed bool
}

// entries lists the backups of server, or of all servers when it is "", in the order of their IDs.
func (r *Repository) entries(ctx context.Context, server string) ([]entry, error) {
	prefix := ""
	if server != "" {
		if err := CheckServer(server); err != nil {
			return nil, err
		}
		prefix = server + "/"
	}
	objects, err := r.sink.List(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", r.location, err)
	}
	found := make(map[string]*entry)
	var list []*entry
	for _, o := range objects {
		parts := strings.Split(o.Name, "/")
		if len(parts) != 3 || CheckServer(parts[0]) != nil || !isID(parts[1]) {
			continue // not ours
		}
		key := parts[1] + "/" + parts[0]
		e := found[key]
		if e == nil {
			e = &entry{server: parts[0], id: parts[1]}
			found[key] = e
			list = append(list, e)
		}
		e.manifest = e.manifest || parts[2] == ManifestObject
		e.verified = e.verified || parts[2] == VerifiedObject
		e.rekeyed = e.rekeyed || parts[2] == RekeyObject
	}
	slices.SortStableFunc(list, func(a, b *entry) int {
		if c := strings.Compare(a.id, b.id); c != 0 {
			return c
		}
		return strings.Compare(a.server, b.server)
	})
	entries := make([]entry, len(list))
	for i, e := range list {
		entries[i] = *e
	}
	return entries, nil
}

// List returns the backups of server, or of all servers when it is "", oldest first. Incomplete ones are among them:
// whoever shows them must say so. A damaged manifest makes its backup Bad, not the listing fail.
func (r *Repository) List(ctx context.Context, server string) ([]*Backup, error) {
	entries, err := r.entries(ctx, server)
	if err != nil {
		return nil, err
	}
	var list []*Backup
	for _, e := range entries {
		b, err := r.load(ctx, e)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, nil
}

var errTooLarge = errors.New("larger than any of its kind")

// readObject reads a small object whole.
func readObject(ctx context.Context, sink sinks.Sink, name string, limit int64) ([]byte, error) {
	object, err := sink.Open(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	defer object.Close()
	if object.Size() > limit {
		return nil, fmt.Errorf("read %q: it has %d bytes, more than %d: %w", name, object.Size(), limit, errTooLarge)
	}
	data, err := io.ReadAll(io.NewSectionReader(object, 0, object.Size()))
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	return data, nil
}

// writeObject creates a small object.
func writeObject(ctx context.Context, sink sinks.Sink, name string, data []byte) error {
	w, err := sink.Create(ctx, name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, bytes.NewReader(data)); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Commit()
}
