package scratch

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Checksums returns the CHECKSUM TABLE … EXTENDED value of every user table, under the name "database.table". Every row
// is read. A table that can't be read is an error.
func (s *Server) Checksums(ctx context.Context) (map[string]uint64, error) {
	if s.db == nil {
		return nil, fmt.Errorf("scratch server does not run")
	}
	tables, err := userTables(ctx, s.db)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	sums := make(map[string]uint64, len(tables))
	for _, t := range tables {
		var name string
		var sum sql.Null[uint64]
		row := s.db.QueryRowContext(ctx, "CHECKSUM TABLE "+quoteName(t[0])+"."+quoteName(t[1])+" EXTENDED")
		if err := row.Scan(&name, &sum); err != nil {
			return nil, fmt.Errorf("checksum of table %q: %w", t[0]+"."+t[1], err)
		}
		if !sum.Valid {
			return nil, fmt.Errorf("checksum of table %q: the server can't read it", t[0]+"."+t[1])
		}
		sums[t[0]+"."+t[1]] = sum.V
	}
	return sums, nil
}

// userTables lists the database and name of every base table that is not the server's own.
func userTables(ctx context.Context, db *sql.DB) ([][2]string, error) {
	rows, err := db.QueryContext(ctx, `SELECT table_schema, table_name FROM information_schema.tables
		WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')
		AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')
		ORDER BY table_schema, table_name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var tables [][2]string
	for rows.Next() {
		var t [2]string
		if err := rows.Scan(&t[0], &t[1]); err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	return tables, rows.Err()
}

// quoteName makes an SQL identifier of any name.
func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
