package scratch

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mbwrap/mbwrap/mariadb/internal/tables"
)

// suffixes of data files, and the engines they belong to.
var suffixes = map[string]string{
	".ibd": "InnoDB", ".MYD": "MyISAM", ".MYI": "MyISAM", ".MAD": "Aria", ".MAI": "Aria", ".CSV": "CSV", ".ARZ": "ARCHIVE",
	".MRG": "MRG_MyISAM",
}

// orphans finds tables whose data files are there and whose definition is not: the server does not list them.
func (s *Server) orphans(ctx context.Context, all []tables.Table) ([]Table, error) {
	dirs, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	known := make(map[tableName]bool, len(all))
	for _, t := range all {
		known[tableName{t.Schema, t.Name}] = true
	}
	var lost []Table
	for _, d := range dirs {
		if !d.IsDir() || strings.HasPrefix(d.Name(), "#") || d.Name() == "lost+found" {
			continue
		}
		names, err := undefined(filepath.Join(s.Dir, d.Name()))
		if err != nil {
			return nil, err
		}
		for _, file := range names {
			t, err := s.orphan(ctx, d.Name(), file)
			if err != nil {
				return nil, err
			}
			// A definition may have been found by other means.
			if key := (tableName{t.Schema, t.Name}); !known[key] {
				known[key] = true // its other files tell nothing new
				lost = append(lost, t)
			}
		}
	}
	return lost, nil
}

// undefined lists the data files in a database's directory that no definition belongs to. InnoDB's own files for
// full-text indexes, and what is left of unfinished changes, never have one.
func undefined(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	defined := make(map[string]bool)
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".frm"); ok {
			defined[name] = true
		}
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if _, ok := suffixes[filepath.Ext(name)]; ok && !strings.HasPrefix(name, "#sql") && !strings.HasPrefix(name, "FTS_") && !defined[tableOf(name)] {
			names = append(names, name)
		}
	}
	return names, nil
}

// tableOf returns the part of a data file's name that stands for its table: partitions have the form "t#P#p.ibd".
func tableOf(file string) string {
	name := strings.TrimSuffix(file, filepath.Ext(file))
	for _, mark := range []string{"#P#", "#p#"} {
		name, _, _ = strings.Cut(name, mark)
	}
	return name
}

// orphan describes a table by its data file. The server translates the names, and tells whether InnoDB knows a table
// of that name; a file that it does not know has been left by something else, maybe long ago.
func (s *Server) orphan(ctx context.Context, dir, file string) (Table, error) {
	t := Table{Engine: suffixes[filepath.Ext(file)], Status: StatusCorrupt}
	name, err := s.decode(ctx, dir, file)
	if err != nil {
		return t, err
	}
	t.Schema, t.Name = name.schema, name.name
	t.Messages = []string{"its definition is lost: there is " + dir + "/" + file + " but no .frm file"}
	if t.Engine != "InnoDB" {
		return t, nil
	}
	var n int
	err = s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.innodb_sys_tables WHERE name = ?",
		dir+"/"+strings.TrimSuffix(file, ".ibd")).Scan(&n)
	if err == nil && n == 0 {
		t.Status, t.Messages = StatusWarning, []string{"InnoDB knows no table of the file " + dir + "/" + file}
	}
	return t, err
}

// sizes adds up the bytes of each table's files, under "directory/name" as the files have it.
func (s *Server) sizes() (map[string]int64, error) {
	dirs, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	all := make(map[string]int64)
	for _, d := range dirs {
		if !d.IsDir() || d.Name() == "lost+found" {
			continue
		}
		files, err := os.ReadDir(filepath.Join(s.Dir, d.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if info, err := f.Info(); err == nil { // what has gone meanwhile has no size
				all[d.Name()+"/"+tableOf(f.Name())] += info.Size()
			}
		}
	}
	return all, nil
}

// tableName is a table's name as SQL knows it.
type tableName struct{ schema, name string }

// decode asks the server for the table that a data file belongs to: in the names of files, letters other than ASCII have
// the form "@0024". Written as hexadecimal digits, a name can't be anything but a name.
func (s *Server) decode(ctx context.Context, dir, file string) (t tableName, err error) {
	text := func(name string) string {
		return fmt.Sprintf("COALESCE(CONVERT(_filename X'%x' USING utf8mb4), CONVERT(X'%x' USING utf8mb4))", name, name)
	}
	err = s.db.QueryRowContext(ctx, "SELECT "+text(dir)+", "+text(tableOf(file))).Scan(&t.schema, &t.name)
	return t, err
}

// noKey is the version of a key that the server does not have.
const noKey = 1<<32 - 1

// locked finds the tables that InnoDB can't read because it has no key for them: a check would call them corrupt.
func (s *Server) locked(ctx context.Context) (map[tableName]bool, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT name FROM information_schema.innodb_tablespaces_encryption
		WHERE encryption_scheme <> 0 AND min_key_version > 0 AND current_key_version = ?`, noKey)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var files []string
	for rows.Next() {
		var name sql.NullString
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		files = append(files, name.String)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	found := make(map[tableName]bool)
	for _, file := range files {
		if dir, name, ok := strings.Cut(file, "/"); ok {
			t, err := s.decode(ctx, dir, name+".ibd")
			if err != nil {
				return nil, err
			}
			found[t] = true
		}
	}
	return found, nil
}
