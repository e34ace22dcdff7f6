package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mbwrap/mbwrap/sinks"
)

// Leftover is something that a dead run left in a repository: an object of a backup without a manifest, or an object that
// was never finished.
type Leftover struct {
	Name    string
	Size    int64 // bytes
	ModTime time.Time

	temporary bool
}

// Leftovers returns what dead runs left, sorted by name, of one server or of all when it is "". What belongs to a run
// that is alive is not among them: each server is looked at under its lock, and those whose lock is held are returned in
// busy. Only what is older than age counts. owner is what others are told of the locks.
func (r *Repository) Leftovers(ctx context.Context, o LeftoverOptions) (left []Leftover, busy []string, err error) {
	servers, err := r.leftoverServers(ctx, o.Server)
	if err != nil {
		return nil, nil, err
	}
	for _, server := range servers {
		found, err := r.leftoversOf(ctx, server, o)
		var locked *sinks.LockedError
		if errors.As(err, &locked) {
			busy = append(busy, server)
			continue
		}
		if err != nil {
			return left, busy, fmt.Errorf("%s: %w", r.location, err)
		}
		left = append(left, found...)
	}
	return left, busy, nil
}

// LeftoverOptions says which leftovers are meant, and whether they go.
type LeftoverOptions struct {
	Server string        // "" for all
	Age    time.Duration // younger ones don't count
	Now    time.Time
	Remove bool   // remove what is found
	Owner  []byte // what others are told of the locks
}

// leftoverServers returns the folders that may hold leftovers.
func (r *Repository) leftoverServers(ctx context.Context, server string) ([]string, error) {
	if server != "" {
		return []string{server}, CheckServer(server)
	}
	objects, err := r.sink.List(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", r.location, err)
	}
	if scavenger, ok := r.sink.(sinks.Scavenger); ok {
		unfinished, err := scavenger.Leftovers(ctx, "")
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", r.location, err)
		}
		objects = append(objects, unfinished...)
	}
	servers := make(map[string]bool)
	for _, o := range objects {
		if name, _, found := strings.Cut(o.Name, "/"); found && CheckServer(name) == nil {
			servers[name] = true
		}
	}
	return slices.Sorted(maps.Keys(servers)), nil
}

// leftoversOf finds and, if asked to, removes the leftovers of one server while no run can begin there.
func (r *Repository) leftoversOf(ctx context.Context, server string, o LeftoverOptions) (left []Leftover, err error) {
	if locker, ok := r.sink.(sinks.Locker); ok {
		lock, err := locker.Lock(ctx, join(server, lockObject), o.Owner)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, lock.Unlock()) }()
	}
	all, err := r.findLeftovers(ctx, server)
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if o.Now.Sub(l.ModTime) < o.Age {
			continue
		}
		if o.Remove {
			if err := r.removeLeftover(ctx, l); err != nil {
				return left, err
			}
		}
		left = append(left, l)
	}
	return left, nil
}

// findLeftovers lists a server's objects that belong to no backup.
func (r *Repository) findLeftovers(ctx context.Context, server string) ([]Leftover, error) {
	objects, err := r.sink.List(ctx, server+"/")
	if err != nil {
		return nil, err
	}
	committed := make(map[string]bool)
	for _, o := range objects {
		if parts := strings.Split(o.Name, "/"); len(parts) == 3 && parts[2] == ManifestObject {
			committed[parts[1]] = true
		}
	}
	var left []Leftover
	for _, o := range objects {
		if parts := strings.Split(o.Name, "/"); len(parts) == 3 && isID(parts[1]) && !committed[parts[1]] {
			left = append(left, Leftover{Name: o.Name, Size: o.Size, ModTime: o.ModTime})
		}
	}
	scavenger, ok := r.sink.(sinks.Scavenger)
	if !ok {
		return left, nil
	}
	unfinished, err := scavenger.Leftovers(ctx, server+"/")
	if err != nil {
		return nil, err
	}
	for _, o := range unfinished {
		left = append(left, Leftover{Name: o.Name, Size: o.Size, ModTime: o.ModTime, temporary: true})
	}
	slices.SortFunc(left, func(a, b Leftover) int { return strings.Compare(a.Name, b.Name) })
	return left, nil
}

// removeLeftover removes one leftover; one that is gone already is fine.
func (r *Repository) removeLeftover(ctx context.Context, l Leftover) error {
	var err error
	if l.temporary {
		err = r.sink.(sinks.Scavenger).RemoveLeftover(ctx, l.Name)
	} else {
		err = r.sink.Remove(ctx, l.Name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
