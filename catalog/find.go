package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Latest is the reference to the newest usable backup of a server.
const Latest = "latest"

// Find returns the backup that ref names: its ID, an unambiguous prefix of one, or Latest. server restricts the search;
// "" searches all servers, which for Latest must be one. The errors match ErrNoBackup or ErrAmbiguous. Incomplete
// backups are found by no reference.
func (r *Repository) Find(ctx context.Context, server, ref string) (*Backup, error) {
	entries, err := r.entries(ctx, server)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool { return !e.manifest })
	if ref == Latest {
		return r.latest(ctx, server, entries)
	}
	fits := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return !strings.HasPrefix(e.id, ref) })
	exact := slices.DeleteFunc(slices.Clone(fits), func(e entry) bool { return e.id != ref })
	if len(exact) > 0 {
		fits = exact
	}
	switch {
	case ref == "" || len(fits) == 0:
		return nil, fmt.Errorf("%q: %w%s in %s", ref, ErrNoBackup, ofServer(server), r.location)
	case len(fits) > 1:
		return nil, fmt.Errorf("%q: %w: %s/%s and %s/%s", ref, ErrAmbiguous,
			fits[0].server, fits[0].id, fits[1].server, fits[1].id)
	}
	return r.load(ctx, fits[0])
}

// latest returns the newest usable backup among entries.
func (r *Repository) latest(ctx context.Context, server string, entries []entry) (*Backup, error) {
	for i := range entries {
		if entries[i].server != entries[0].server {
			return nil, fmt.Errorf("%q: %w: there are several servers, %q and %q among them",
				Latest, ErrAmbiguous, entries[0].server, entries[i].server)
		}
	}
	var skipped []error
	for _, e := range slices.Backward(entries) {
		b, err := r.load(ctx, e)
		if err != nil {
			return nil, err
		}
		if b.Usable() {
			return b, nil
		}
		skipped = append(skipped, fmt.Errorf("%s is %s", b.ID, b.State))
	}
	err := fmt.Errorf("%q: %w%s in %s", Latest, ErrNoBackup, ofServer(server), r.location)
	if len(skipped) > 0 {
		err = fmt.Errorf("%w (%w)", err, errors.Join(skipped...))
	}
	return nil, err
}

func ofServer(server string) string {
	if server == "" {
		return ""
	}
	return fmt.Sprintf(" of server %q", server)
}
