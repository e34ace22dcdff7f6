package scratch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/mariadb/internal/tables"
)

// check is one check of all tables under way.
type check struct {
	server  *Server
	o       CheckOptions
	keyed   bool // the server has a plugin with keys for encrypted tables
	locked  map[tableName]bool
	sizes   map[string]int64 // bytes of each table's files, under the names that these have
	crashes int
	// statement checks one table on a connection; the error is for an answer that did not come.
	statement func(context.Context, *sql.Conn, tables.Table, Mode) ([]message, error)

	mu   sync.Mutex // guards done, and calls of o.OnTable
	done []Table
}

func (c *check) add(t Table) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = append(c.done, t)
	if c.o.OnTable != nil {
		c.o.OnTable(t)
	}
}

// all checks tables until none is left. After an end of the server those that were being checked come first, one at a
// time, so that the one that ends it is known.
func (c *check) all(ctx context.Context, left []tables.Table) error {
	for len(left) > 0 {
		suspects, rest, err := c.batch(ctx, left, min(max(c.o.Parallel, 1), mostChecks))
		if err != nil {
			return err
		}
		for i, t := range suspects {
			if up, err := c.revive(ctx, suspects[i:], rest); err != nil || !up {
				return err
			}
			if again, _, err := c.batch(ctx, []tables.Table{t}, 1); err != nil {
				return err
			} else if len(again) > 0 {
				c.blame(t, "the server ended, or fell silent, while it checked this table: "+c.server.lastWords())
			}
		}
		if up, err := c.revive(ctx, nil, rest); err != nil || !up {
			return err
		}
		left = rest
	}
	return nil
}

// revive starts another server if this one has ended. If that can't be done, it settles the tables that are left:
// up is false then.
func (c *check) revive(ctx context.Context, suspects, rest []tables.Table) (up bool, err error) {
	if c.server.alive() {
		return true, nil
	}
	words := c.server.lastWords()
	if c.crashes++; c.crashes <= mostCrashes {
		if err = c.server.restart(ctx); err == nil {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		words += "; it does not come up again: " + err.Error()
	}
	if err := c.server.Kill(); err != nil {
		return false, err
	}
	for _, t := range suspects {
		c.blame(t, "the server ended while it checked this table, or one of those at the same time: "+words)
	}
	for _, t := range rest {
		c.add(Table{Schema: t.Schema, Name: t.Name, Engine: t.Engine, Status: StatusNotChecked,
			Messages: []string{fmt.Sprintf("the server has ended %d times: %s", c.crashes, words)}})
	}
	return false, nil
}

func (c *check) blame(t tables.Table, text string) {
	c.add(Table{Schema: t.Schema, Name: t.Name, Engine: t.Engine, Status: StatusCorrupt, Messages: []string{text}})
}

// batch checks tables on several connections. When the server ends, suspects are those that were being checked, and
// rest those that nobody had begun with.
func (c *check) batch(ctx context.Context, all []tables.Table, parallel int) (suspects, rest []tables.Table, err error) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex // guards suspects and rest
	rest = all
	next := func() (t tables.Table, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(rest) == 0 || inner.Err() != nil {
			return t, false
		}
		t, rest = rest[0], rest[1:]
		return t, true
	}
	var group sync.WaitGroup
	for range min(parallel, len(all)) {
		group.Go(func() {
			for {
				t, ok := next()
				if !ok {
					return
				}
				switch c.one(inner, t) {
				case silent:
					mu.Lock()
					suspects = append(suspects, t)
					mu.Unlock()
					cancel()
				case settled:
					cancel()
				}
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	return suspects, rest, nil
}

// outcome is how the check of one table ended.
type outcome int

const (
	answered outcome = iota
	silent           // no answer came: the server has ended, or nobody waits any more
	settled          // no answer came in time: the table is blamed, and the server killed
)

// one checks one table.
func (c *check) one(ctx context.Context, t tables.Table) outcome {
	start := time.Now()
	limit := c.patience(t)
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := c.server.db.Conn(timed)
	if err != nil {
		return silent
	}
	defer conn.Close() // back to the pool
	said, err := c.statement(timed, conn, t, c.o.Mode)
	switch {
	case err != nil && timed.Err() != nil && ctx.Err() == nil:
		// A thread that runs in circles ends in no other way.
		c.server.server.Signal(unix.SIGKILL)
		c.blame(t, fmt.Sprintf("the check did not come to an end within %v: the server runs in circles over this table", limit))
		return settled
	case err != nil:
		return silent
	}
	found := Table{Schema: t.Schema, Name: t.Name, Engine: t.Engine, Elapsed: time.Since(start)}
	found.Status, found.Messages = judge(said, c.keyed)
	c.add(found)
	return answered
}

// patience is how long a table's check may take. Files of unusual names are not told apart.
func (c *check) patience(t tables.Table) time.Duration {
	limit := c.o.Patience
	if limit == 0 {
		limit = defaultPatience
	}
	size, ok := c.sizes[t.Schema+"/"+t.Name]
	if !ok {
		for _, n := range c.sizes {
			size = max(size, n)
		}
	}
	return limit + time.Duration(size>>20)*time.Second
}

// message is one line of what the server says of a table.
type message struct{ kind, text string }

// checkTable has the server check a table. A sequence can't be checked, so it is read.
func checkTable(ctx context.Context, conn *sql.Conn, t tables.Table, mode Mode) ([]message, error) {
	query := "CHECK TABLE " + t.SQL() + " " + strings.ToUpper(string(mode))
	if t.IsSequence() {
		query = "SELECT '', '', 'status', 'OK' FROM " + t.SQL()
	}
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return refusal(err)
	}
	defer rows.Close()
	var said []message
	for rows.Next() {
		var name, op string
		var m message
		if err := rows.Scan(&name, &op, &m.kind, &m.text); err != nil {
			return nil, err
		}
		said = append(said, m)
	}
	if err := rows.Err(); err != nil {
		more, err := refusal(err)
		return append(said, more...), err
	}
	return said, nil
}

// serverShutdown is the number of the server's error "Server shutdown in progress".
const serverShutdown = 1053

// refusal makes a message of an error that the server has reported, as opposed to a lost connection.
func refusal(err error) ([]message, error) {
	var refused *mysql.MySQLError
	if errors.As(err, &refused) && refused.Number != serverShutdown {
		return []message{{"error", refused.Message}}, nil
	}
	return nil, err
}
