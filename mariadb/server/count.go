package server

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// CountOptions says how to count rows.
type CountOptions struct {
	Parallel int           // tables at a time, at most four; below 1 is one
	PerTable time.Duration // a table that takes longer is left out; 0 is no limit
	OnTotal  func(int)     // told once how many tables there are; nil is fine
	OnTable  func(Rows)    // told each table as it is done, by one goroutine at a time; nil is fine
}

// Rows is the number of rows of one table.
type Rows struct {
	Schema, Name string
	Count        int64  // -1 if it was not counted
	Reason       string // why it was not counted, else ""
}

// CountRows counts the rows of every user table, sorted by name. Each count is exact for its own moment.
func CountRows(ctx context.Context, db *sql.DB, o CountOptions) ([]Rows, error) {
	return nil, errors.ErrUnsupported
}

// CountRows counts the rows of every user table of the server, see the function of that name.
func (s *Conn) CountRows(ctx context.Context, o CountOptions) ([]Rows, error) {
	return CountRows(ctx, s.db, o)
}
