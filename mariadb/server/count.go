package server

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/mbwrap/mbwrap/mariadb/internal/tables"
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

// String returns the name as "database.table".
func (r Rows) String() string { return r.Schema + "." + r.Name }

const (
	// mostCounts is how many tables are counted at a time: a server has others to serve.
	mostCounts = 4
	// countLimit is the time for one table of a live server when no other is given. While a table is counted its
	// definition can't be changed, and behind a change that waits for that everyone else waits, too.
	countLimit = 2 * time.Minute
)

// CountRows counts the rows of every user table that this user may see, sorted by name. Each count is exact for its own
// moment; they are not of one moment. Sequences, views and tables that hold nothing on disk (MEMORY, BLACKHOLE) are left
// out. A table that can't be counted, or whose engine may reach out of the server (FEDERATED and the like), has a
// reason instead. The error is for a server that does not answer, or an ended context.
func CountRows(ctx context.Context, db *sql.DB, o CountOptions) ([]Rows, error) {
	all, err := tables.List(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	all = slices.DeleteFunc(all, func(t tables.Table) bool {
		return t.IsSystem() || t.IsSequence() || tables.KindOf(t.Engine) == tables.Empty
	})
	if o.OnTotal != nil {
		o.OnTotal(len(all))
	}
	c := &counter{db: db, o: o, left: all}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for range min(max(o.Parallel, 1), mostCounts, len(all)) {
		group.Go(func() {
			if err := c.work(ctx); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("count rows: %w", err)
	}
	slices.SortFunc(c.done, func(a, b Rows) int { return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Name, b.Name)) })
	return c.done, nil
}

// counter is one count under way.
type counter struct {
	db *sql.DB
	o  CountOptions

	mu   sync.Mutex // guards what follows, and calls of o.OnTable
	left []tables.Table
	done []Rows
}

// work counts tables on one connection until none is left.
func (c *counter) work(ctx context.Context) error {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // back to the pool
	for {
		t, ok := c.next()
		if !ok {
			return nil
		}
		r, err := c.count(ctx, conn, t)
		if err != nil {
			return err
		}
		c.add(r)
	}
}

func (c *counter) next() (tables.Table, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.left) == 0 {
		return tables.Table{}, false
	}
	t := c.left[0]
	c.left = c.left[1:]
	return t, true
}

func (c *counter) add(r Rows) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = append(c.done, r)
	if c.o.OnTable != nil {
		c.o.OnTable(r)
	}
}

// count counts one table. The error is for a connection that is lost.
func (c *counter) count(ctx context.Context, conn *sql.Conn, t tables.Table) (Rows, error) {
	r := Rows{Schema: t.Schema, Name: t.Name, Count: -1}
	switch {
	case t.Engine == "":
		r.Reason = t.Comment
		return r, nil
	case strings.HasPrefix(t.Comment, tables.Unloaded):
		r.Reason = "engine " + t.Engine + " is not loaded"
		return r, nil
	case tables.KindOf(t.Engine) == tables.Foreign:
		r.Reason = "engine " + t.Engine + " may reach out of the server"
		return r, nil
	}
	// It does not wait long for a table whose definition someone is changing.
	query := fmt.Sprintf("SET STATEMENT max_statement_time = %.3f, lock_wait_timeout = 5 FOR SELECT COUNT(*) FROM %s",
		c.o.PerTable.Seconds(), t.SQL())
	err := conn.QueryRowContext(ctx, query).Scan(&r.Count)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		r.Count, r.Reason = -1, refused.Message
		return r, nil
	}
	return r, err
}

// CountRows counts the rows of every user table of the server, as the function of that name does. PerTable 0 is two
// minutes. It opens connections of its own.
func (s *Conn) CountRows(ctx context.Context, o CountOptions) (rows []Rows, err error) {
	if o.PerTable == 0 {
		o.PerTable = countLimit
	}
	db, err := s.pool(0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return CountRows(ctx, db, o)
}
