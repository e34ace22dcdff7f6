package scratch

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/mbwrap/mbwrap/mariadb/internal/tables"
)

// Checksums returns the CHECKSUM TABLE … EXTENDED value of every user table, under the name "database.table". Every row
// is read. A table that can't be read is an error.
func (s *Server) Checksums(ctx context.Context) (map[string]uint64, error) {
	if s.db == nil {
		return nil, errNotRunning
	}
	all, err := tables.List(ctx, s.db)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	sums := make(map[string]uint64, len(all))
	for _, t := range all {
		if t.IsSystem() || t.IsSequence() {
			continue
		}
		var name string
		var sum sql.Null[uint64]
		if err := s.db.QueryRowContext(ctx, "CHECKSUM TABLE "+t.SQL()+" EXTENDED").Scan(&name, &sum); err != nil {
			return nil, fmt.Errorf("checksum of table %q: %w", t.Schema+"."+t.Name, err)
		}
		if !sum.Valid {
			return nil, fmt.Errorf("checksum of table %q: the server can't read it", t.Schema+"."+t.Name)
		}
		sums[t.Schema+"."+t.Name] = sum.V
	}
	return sums, nil
}
