package restore

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/xbstream"
)

// Files that are looked for by name.
const (
	systemSpace = "ibdata1"
	redoLog     = "ib_logfile0"
)

// survey is what the extracted files tell about themselves.
type survey struct {
	files, bytes int64
	userTables   int64
	links        []string // .isl files, which point to tables elsewhere
	packed       string   // the first file that is compressed or encrypted on its own
}

// takeSurvey walks all files below root.
func takeSurvey(root *os.Root) (s survey, err error) {
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (name == unfinishedName || name == lostFound) {
			return fs.SkipDir
		}
		if err != nil || !entry.Type().IsRegular() || name == lostListName {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		s.files++
		s.bytes += info.Size()
		s.sort(name)
		return nil
	})
	return s, err
}

// sort takes note of a file by its name.
func (s *survey) sort(name string) {
	switch path.Ext(name) {
	case ".qp", ".xbcrypt", ".lz4", ".zst":
		if s.packed == "" {
			s.packed = name
		}
	case ".isl":
		s.links = append(s.links, name)
	}
	if isUserTable(name) {
		s.userTables++
	}
}

// isUserTable tells whether a file belongs to a table outside of the server's own databases.
func isUserTable(name string) bool {
	database, table, found := strings.Cut(name, "/")
	switch {
	case !found, table == "db.opt", strings.HasPrefix(database, "#"):
		return false
	}
	return !slices.Contains([]string{"mysql", "sys", "performance_schema"}, database)
}

// look takes the survey before the files are prepared.
func (r *runner) look() error { return r.lookAt(r.work.data) }

// lookAt surveys the files below root and collects the warnings about them.
func (r *runner) lookAt(root *os.Root) (err error) {
	if r.survey, err = takeSurvey(root); err != nil {
		return err
	}
	r.result.Files, r.result.Bytes = r.survey.files, r.survey.bytes
	r.result.Position, r.positionErr = readPosition(root)
	if r.extractOnly {
		return nil
	}
	if r.survey.userTables == 0 {
		r.warn("it holds no tables but the server's own: is it the right backup?")
	}
	if err := r.lookAtLinks(root); err != nil {
		return err
	}
	r.lookAtPosition()
	return nil
}

// maxLink is how much of an .isl file is read, in bytes: it holds one path.
const maxLink = 4 << 10

// lookAtLinks warns of tables that lay elsewhere. A 10.11 server opens the file in the data directory, whether there is
// still one at the old place or not.
func (r *runner) lookAtLinks(root *os.Root) error {
	for _, name := range r.survey.links {
		text, err := readSmall(root, name, maxLink)
		if err != nil {
			return err
		}
		place := strings.TrimSpace(string(text))
		if place == "" {
			continue
		}
		r.warn("%q points to a table outside of the data directory, %q: it is restored inside of the target; to leave it there "+
			"remove the .isl file, to have it at its old place move the .ibd file there before a server is started", name, place)
	}
	return nil
}

// lookAtPosition warns of what the backup says of itself.
func (r *runner) lookAtPosition() {
	p := r.result.Position
	if p == nil {
		r.warn("the stream does not say what it is: %v", r.positionErr)
		return
	}
	if p.CorruptPages != "" {
		r.warn("the server's own files had corrupt pages when the backup was taken, see innodb_corrupted_pages")
	}
	if p.Partial {
		r.warn("the backup is partial: it was taken with a filter on tables or databases")
	}
	for _, key := range []string{"innodb_undo_directory", "innodb_data_home_dir", "innodb_log_group_home_dir", "aria_log_dir_path"} {
		if dir := p.Config[key]; dir != "" && path.Clean(dir) != "." {
			r.warn("the server had %s=%s: those files are restored inside of the target; move them there, or start the server "+
				"without that setting", key, dir)
		}
	}
}

// metadataNames lists the files in which the tool describes a backup, in both name sets.
func metadataNames() []string {
	names := []string{"backup-my.cnf", "innodb_corrupted_pages"}
	for _, prefix := range []string{"xtrabackup_", "mariadb_backup_"} {
		for _, name := range []string{"checkpoints", "info", "binlog_info", "slave_info", "galera_info"} {
			names = append(names, prefix+name)
		}
	}
	return names
}

// maxDescription is how much of a description is read, in bytes. Only a list of corrupt pages can be longer.
const maxDescription = 1 << 20

// readPosition reads what a backup says of itself out of its extracted files. The error is mariadb.ErrNoMetadata if it
// says nothing.
func readPosition(root *os.Root) (*mariadb.Position, error) {
	var m mariadb.Metadata
	for _, name := range metadataNames() {
		text, err := readSmall(root, name, maxDescription)
		if absent(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		c := &xbstream.Chunk{Header: xbstream.Header{Type: xbstream.TypePayload, Path: name, Size: int64(len(text))}}
		end := &xbstream.Chunk{Header: xbstream.Header{Type: xbstream.TypeEnd, Path: name}}
		if err := errors.Join(m.Chunk(c), m.Data(text), m.Chunk(end)); err != nil {
			return nil, err
		}
	}
	p, err := m.Parse()
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// readSmall reads the beginning of a file, all of it if it is as small as it should be.
func readSmall(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, limit))
	return text, errors.Join(err, f.Close())
}
