package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// secure looks at a restored data directory before a server sees it. It refuses what leads outside, and what is not
// there but would be made anew. InnoDB's links to tables elsewhere (DATA DIRECTORY) are removed: the server opens the
// file they name, which may be the production server's, even if there is one in its place here.
func (s *Server) secure() error {
	dir, err := filepath.EvalSymlinks(s.Dir)
	if err != nil {
		return err
	}
	s.Dir = dir
	if err := systemFiles(dir, s.Args); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "lost+found" && filepath.Dir(name) == dir:
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if err := inside(name, d); err != nil {
			return err
		}
		if strings.HasSuffix(d.Name(), ".isl") {
			return os.Remove(name)
		}
		return nil
	})
}

// inside refuses a file that is, or may be, somewhere else, too.
func inside(name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(name)
		return errors.Join(fmt.Errorf("%w: %q is a link to %q", ErrOutside, name, target), err)
	case mode&fs.ModeSocket != 0: // left by a server, nobody opens it
		return nil
	case !mode.IsRegular():
		return fmt.Errorf("%w: %q is no ordinary file (%v)", ErrOutside, name, mode.Type())
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		return fmt.Errorf("%w: %q is a file that has another name elsewhere", ErrOutside, name)
	}
	return nil
}

// dataFilePath is the option that names the system tablespace's files.
const dataFilePath = "innodb-data-file-path"

// systemFiles makes sure that the system tablespace and the server's own database are there, and the first of them
// inside: without them a server makes new ones.
func systemFiles(dir string, args []string) error {
	spec := "ibdata1"
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if strings.ReplaceAll(name, "_", "-") == dataFilePath {
			spec = value
		}
	}
	names := []string{"mysql"}
	for one := range strings.SplitSeq(spec, ";") {
		name, size, _ := strings.Cut(one, ":")
		name = path.Clean(strings.TrimSpace(name))
		if !filepath.IsLocal(name) || strings.Contains(size, "raw") {
			return fmt.Errorf("%w: --%s names %q", ErrOutside, dataFilePath, one)
		}
		names = append(names, name)
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%w: %w", ErrIncomplete, err)
		}
	}
	return nil
}
