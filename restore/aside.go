package restore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// settleLosses decides what becomes of files of which others are lost: they are prepared and made a data directory when
// everything is there that this needs, else they are put aside. Without losses it does nothing.
func (r *runner) settleLosses() error {
	s, l := r.work.state, &r.losses
	if s.Phase != PhaseExtract || !l.any() {
		return nil
	}
	if r.result.Files == 0 {
		return fmt.Errorf("%w: %d files are lost, and none is left", ErrNothing, len(l.files))
	}
	s.Salvaged, s.Lost, s.LostFiles = true, l.list(), int64(len(l.files))
	core := l.core()
	s.Aside = l.unsure || len(core) > 0
	if !s.Aside {
		s.Steps = salvageSteps(l, filepath.Join(r.target.path, lostListName))
		return writeFile(r.work.data, lostListName, l.text())
	}
	s.Prepare = false
	return r.putAside(core)
}

// putAside moves all files into a directory of their own, so that nobody takes them for a data directory, and writes down
// what they are.
func (r *runner) putAside(core []string) error {
	root := r.work.data
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	inside := path.Join(asideName, asideFiles)
	if err := root.MkdirAll(inside, dirMode); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == asideName {
			continue
		}
		if err := root.Rename(e.Name(), path.Join(inside, e.Name())); err != nil {
			return err
		}
	}
	return errors.Join(
		writeFile(root, path.Join(asideName, lostListName), r.losses.text()),
		writeFile(root, path.Join(asideName, readmeName), r.readme(core)))
}

// reportLosses fills in what the result says of lost files.
func (r *runner) reportLosses() {
	s := r.work.state
	if !s.Salvaged {
		return
	}
	r.result.Lost, r.result.LostFiles = s.Lost, s.LostFiles
	dir := r.target.path
	if s.Aside {
		dir = filepath.Join(dir, asideName)
		r.result.Aside = dir
		r.warn("so much is lost that the rest is no data directory: it is in %q, and nothing was prepared", dir)
	}
	r.result.LostList = filepath.Join(dir, lostListName)
	if s.LostFiles > 0 {
		r.warn("%d files are damaged or missing in the backup and were not restored, see %q", s.LostFiles, r.result.LostList)
	}
}

// lookAside surveys the files that an earlier run has put aside and moved into the target.
func (r *runner) lookAside() error {
	root, err := r.work.root.OpenRoot(path.Join(asideName, asideFiles))
	if err != nil {
		return err
	}
	return errors.Join(r.lookAt(root), root.Close())
}

// readme tells what was put aside, why, and what can be done with it.
func (r *runner) readme(core []string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `What mbwrap salvaged of %s

This is NOT a data directory. Don't start a server on it, and don't copy it over one.

  files/            %d files (%d bytes) that are whole, byte for byte as they were backed up, not prepared
  %s   the files that are lost, with the reason of each

`, r.source, r.result.Files, r.result.Bytes, lostListName)
	if r.losses.unsure {
		b.WriteString(unsureText)
		for _, n := range r.losses.notes {
			fmt.Fprintf(&b, "  %s\n", n)
		}
		b.WriteByte('\n')
	}
	if len(core) > 0 {
		fmt.Fprintf(&b, "Lost are files without which nothing can be prepared:\n")
		for _, p := range core {
			fmt.Fprintf(&b, "  %s: %s\n", p, coreText(p))
		}
		b.WriteByte('\n')
	}
	if r.Backup != nil && r.Backup.Manifest != nil {
		m := r.Backup.Manifest
		fmt.Fprintf(&b, "The backup was made of %s, from LSN %d to %d, last LSN %d.\n\n", m.ServerVersion, m.FromLSN, m.ToLSN, m.LastLSN)
	}
	b.WriteString(asideText)
	return b.Bytes()
}

const unsureText = `The stream is damaged, and there is no index that could tell what it held: more files may be lost than
anybody can name, and a table that was renamed, dropped or written anew during the backup may be here in an
older state. What could not be read:

`

// coreText tells what the loss of a file means.
func coreText(name string) string {
	switch {
	case strings.HasPrefix(name, "aria_log"):
		return "the log of Aria. mariadb-backup --prepare stops without it, but recovers InnoDB before; a server started on " +
			"such a copy makes a new log, and CHECK TABLE and REPAIR TABLE then tell about the Aria tables"
	case strings.HasPrefix(name, "ib_logfile"):
		return "the redo log. The tablespaces are from different moments, and nothing can bring them to one"
	case strings.HasPrefix(name, "undo"):
		return "a part of the undo log, without which open transactions can't be rolled back"
	case strings.HasSuffix(name, "_checkpoints"):
		return "tells mariadb-backup from which LSN to which the backup goes. It can be written by hand: backup_type = " +
			"full-backuped, from_lsn, to_lsn and last_lsn, each with its number, one line each"
	case name == "backup-my.cnf":
		return "the settings of InnoDB that --prepare needs. It can be written by hand from the server's configuration: [mysqld], " +
			"innodb_checksum_algorithm, innodb_data_file_path, innodb_page_size, innodb_undo_directory, innodb_undo_tablespaces"
	}
	return "a part of the system tablespace, or another file that the server has at the top of its data directory"
}

const asideText = `What can be done, always on a copy of files/ and never on files/ itself:

  1. Is there another backup, or another copy of this one? Restore that first.
  2. If only files that can be written by hand or done without are lost, put them in and try:
     mariadb-backup --prepare --target-dir=COPY
  3. MyISAM and CSV tables need no prepare: all files of such a table can be copied into the directory of a
     database of a running server. An index file (.MYI) that is lost is made anew by REPAIR TABLE t USE_FRM.
  4. Single tables of InnoDB: on another server, create the table with the same definition, ALTER TABLE t DISCARD
     TABLESPACE, copy its .ibd there, ALTER TABLE t IMPORT TABLESPACE, CHECK TABLE t. The file was copied while
     the server wrote to it: the table may be damaged, and its newest changes are missing.
`
