// Package tables lists the tables of a server and says which of them may be opened. It is the only package that knows
// the engines.
package tables

import (
	"context"
	"database/sql"
	"strings"
)

// Table is a base table, a system-versioned one or a sequence; never a view.
type Table struct {
	Schema, Name string
	Type         string // "BASE TABLE", "SYSTEM VERSIONED" or "SEQUENCE"
	Engine       string // as its definition says; "" if the definition can't be read
	Comment      string // its comment, or why the server can't open it
}

// Unloaded begins the comment of a table whose engine the server has not loaded.
const Unloaded = "Unknown storage engine"

// IsSequence tells whether it is a sequence, which holds one row and can't be checked.
func (t Table) IsSequence() bool { return t.Type == "SEQUENCE" }

// IsSystem tells whether it is one of the server's own.
func (t Table) IsSystem() bool { return t.Schema == "mysql" || t.Schema == "sys" }

// SQL returns the name as SQL text.
func (t Table) SQL() string { return Quote(t.Schema) + "." + Quote(t.Name) }

// Quote makes an SQL identifier of any name.
func Quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Kind says what opening a table of an engine means.
type Kind int

// Kinds of engines.
const (
	Foreign Kind = iota // may reach another server, a program, or files anywhere: or nobody knows. Never opened
	Local               // its data are files of the data directory
	Empty               // local, and nothing of it is on disk
)

// KindOf returns the kind of an engine. An unknown engine is Foreign: FEDERATED, CONNECT, SPIDER, S3 and others open
// connections as soon as a table is opened, and what comes tomorrow may, too.
func KindOf(engine string) Kind {
	switch strings.ToLower(engine) {
	case "innodb", "myisam", "aria", "mrg_myisam", "csv", "archive", "rocksdb":
		return Local
	case "memory", "blackhole":
		return Empty
	}
	return Foreign
}

// listQuery reads nothing but definitions: of the columns asked for none needs a table to be opened, so that no engine
// is asked anything.
const listQuery = `SELECT table_schema, table_name, table_type, COALESCE(engine, ''), COALESCE(table_comment, '')
	FROM information_schema.tables
	WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE')
	AND table_schema NOT IN ('information_schema', 'performance_schema')
	ORDER BY table_schema, table_name`

// List lists all tables that this user may see, in the order of their names.
func List(ctx context.Context, db *sql.DB) ([]Table, error) {
	rows, err := db.QueryContext(ctx, listQuery)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Table
	for rows.Next() {
		var t Table
		if err := rows.Scan(&t.Schema, &t.Name, &t.Type, &t.Engine, &t.Comment); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, rows.Err()
}
