package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/sinks"
)

// openSink opens the place that a --repo names.
func openSink(place string, create bool) (sinks.Sink, error) {
	if scheme, _, ok := strings.Cut(place, "://"); ok && scheme != "file" {
		return nil, &usageError{err: errorf("--repo %q: this version keeps backups in directories only", place),
			hint: "is there a directory, or a mounted file system, to keep them in?"}
	}
	dir := strings.TrimPrefix(place, "file://")
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && create:
	case errors.Is(err, fs.ErrNotExist):
		return nil, errorf("repository %s: %w: there is no such directory", place, catalog.ErrNotRepository)
	case err != nil:
		return nil, errorf("repository %s: %w", place, err)
	case !info.IsDir():
		return nil, errorf("repository %s: %w: it is a file", place, catalog.ErrNotRepository)
	case create:
		if err := checkEmpty(dir, place); err != nil {
			return nil, err
		}
	}
	return sinks.NewLocal(dir)
}

// checkEmpty refuses a directory that holds something but is no repository. It looks at the names on top only: the sink
// would walk through all of what might be a root file system.
func checkEmpty(dir, place string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return errorf("repository %s: %w", place, err)
	}
	other := ""
	for _, e := range entries {
		switch e.Name() {
		case catalog.RepositoryObject:
			return nil
		case "lost+found":
		default:
			other = e.Name()
		}
	}
	if other != "" && !strings.HasPrefix(other, ".mbwrap-") {
		return errorf("%s: %w: it holds %q", place, catalog.ErrNotEmpty, other)
	}
	return nil
}

// openRepositories opens every repository that the flags name, for reading.
func openRepositories(ctx context.Context, c *common) ([]*catalog.Repository, error) {
	if err := c.needRepo(); err != nil {
		return nil, err
	}
	var all []*catalog.Repository
	for _, place := range c.Repos {
		sink, err := openSink(place, false)
		if err != nil {
			return nil, err
		}
		r, err := catalog.Open(ctx, sink, place)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// findBackup returns the backup that ref names, from the first repository that has it. Without --server this host's
// backups come first; if there are none, those of the only server, or of the server that the ID leads to.
func findBackup(ctx context.Context, env *Env, c *common, ref string) (*catalog.Backup, error) {
	repositories, err := openRepositories(ctx, c)
	if err != nil {
		return nil, err
	}
	server := c.Server
	host := ""
	if server == "" {
		if host, err = c.serverName(env); err != nil {
			return nil, err
		}
	}
	var none error
	for _, r := range repositories {
		b, err := findIn(ctx, r, ref, preference{server, host})
		if err == nil || !errors.Is(err, catalog.ErrNoBackup) {
			return b, err
		}
		none = errors.Join(none, err)
	}
	return nil, none
}

// preference says whose backups are meant: those of server only, or, if that is "", those of host before all others.
type preference struct{ server, host string }

func findIn(ctx context.Context, r *catalog.Repository, ref string, p preference) (*catalog.Backup, error) {
	if p.server != "" {
		return r.Find(ctx, p.server, ref)
	}
	if catalog.CheckServer(p.host) == nil {
		b, err := r.Find(ctx, p.host, ref)
		if err == nil || !errors.Is(err, catalog.ErrNoBackup) {
			return b, err
		}
	}
	b, err := r.Find(ctx, "", ref)
	if errors.Is(err, catalog.ErrAmbiguous) {
		err = withHint(err, "which server's? give --server NAME; try: mbwrap list")
	}
	return b, err
}

// isFile tells whether a BACKUP argument is the path of a file, or standard input, rather than a name in a repository.
func isFile(ref string) bool {
	if ref == "-" || strings.ContainsRune(ref, os.PathSeparator) {
		return true
	}
	info, err := os.Stat(ref)
	return err == nil && info.Mode().IsRegular()
}

// openFile opens a plain backup for reading: a path, or "-" for standard input.
func openFile(env *Env, ref string) (*os.File, error) {
	if ref != "-" {
		f, err := os.Open(ref)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %w", errNoBackup, err)
		}
		return f, err
	}
	f, ok := env.Stdin.(*os.File)
	if !ok {
		return nil, errorf("standard input is not a file")
	}
	if env.StdinTTY {
		return nil, usagef("standard input is a terminal: pipe a backup into it")
	}
	return f, nil
}
