package scratch

import (
	"context"
	"database/sql"

	"github.com/mbwrap/mbwrap/mariadb/internal/tables"
)

// CheckWith checks all tables of one database and calls before each time it is about to check one. It also returns how
// often the server has ended.
func (s *Server) CheckWith(ctx context.Context, schema string, o CheckOptions, before func(context.Context, string)) ([]Table, int, error) {
	all, err := tables.List(ctx, s.db)
	if err != nil {
		return nil, 0, err
	}
	var some []tables.Table
	for _, t := range all {
		if t.Schema == schema {
			some = append(some, t)
		}
	}
	o.Mode = Quick
	c := &check{server: s, o: o}
	c.statement = func(ctx context.Context, conn *sql.Conn, t tables.Table, mode Mode) ([]message, error) {
		before(ctx, t.Name)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return checkTable(ctx, conn, t, mode)
	}
	err = c.all(ctx, some)
	return c.done, c.crashes, err
}

// Revive is what happens when the server has ended the given number of times before.
func (s *Server) Revive(ctx context.Context, crashes int, left ...tables.Table) (done []Table, up bool, err error) {
	c := &check{server: s, crashes: crashes}
	up, err = c.revive(ctx, nil, left)
	return c.done, up, err
}

// MostCrashes is mostCrashes.
const MostCrashes = mostCrashes

// Exited is closed when the server has ended.
func (s *Server) Exited() <-chan struct{} { return s.server.Exited }
