package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// DataSize is what a full backup would have to copy. Bytes is the apparent size: the tool sends page-compressed tables
// with their holes filled.
type DataSize struct {
	Bytes int64
	Files int
	// Outside lists the tables' files that lie outside the data directory (DATA DIRECTORY), as far as they are known.
	Outside []string
}

// measureData walks the server's directories and adds up what a backup copies: no logs, no temporary files.
func measureData(ctx context.Context, f Facts) (DataSize, error) {
	var size DataSize
	if f.DataDir == "" {
		return size, errors.New("the server's data directory is unknown")
	}
	root, err := filepath.EvalSymlinks(f.DataDir)
	if err == nil {
		err = size.walk(ctx, root, "")
	}
	if err != nil {
		return DataSize{}, fmt.Errorf("look into the data directory: %w", err)
	}
	for _, dir := range []string{f.DataHome, f.UndoDir} {
		if dir != f.DataDir && dir != "" {
			size.addTop(dir)
		}
	}
	return size, nil
}

// walk adds up the files of a directory whose path in the data directory is below.
func (s *DataSize) walk(ctx context.Context, root, below string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist) && path != root:
			return nil // dropped meanwhile
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "lost+found":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.Join(below, rel)
		if d.Type()&fs.ModeSymlink != 0 && below == "" && filepath.Dir(rel) == "." {
			if target, err := filepath.EvalSymlinks(path); err == nil && isDir(target) {
				return s.walk(ctx, target, rel) // a database that lies elsewhere
			}
		}
		return s.add(path, rel)
	})
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// add counts one file, below being its path in the data directory.
func (s *DataSize) add(path, below string) error {
	top := !strings.Contains(below, string(filepath.Separator))
	name := filepath.Base(below)
	if top && !copiedAtTop(name) || strings.HasPrefix(name, "#sql") {
		return nil
	}
	s.count(path)
	if strings.HasSuffix(name, ".isl") {
		text, err := os.ReadFile(path)
		if target := strings.TrimSpace(string(text)); err == nil && filepath.IsAbs(target) {
			s.count(target)
			s.Outside = append(s.Outside, target)
		}
	}
	return nil
}

// addTop counts the InnoDB files of a directory that stands apart.
func (s *DataSize) addTop(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() && copiedAtTop(e.Name()) {
			s.count(filepath.Join(dir, e.Name()))
		}
	}
}

// count adds a file's size; one that has gone meanwhile counts nothing.
func (s *DataSize) count(path string) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		s.Bytes += info.Size()
		s.Files++
	}
}

// copiedAtTop tells whether a file at the top of the data directory is data: binary and relay logs, the redo log,
// temporary tablespaces, error logs and pid files are not.
func copiedAtTop(name string) bool {
	for _, prefix := range []string{"ibdata", "undo0", "aria_log"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, ".ibd")
}
