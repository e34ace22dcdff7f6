package scratch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mbwrap/mbwrap/mariadb/internal/tables"
	"github.com/mbwrap/mbwrap/mariadb/server"
)

// Mode says how thoroughly tables are checked, in the server's own words.
type Mode string

// Modes. MyISAM and Aria go deeper with each; InnoDB reads every page of every index in all of them, but does not count
// the rows of secondary indexes with Quick.
const (
	Quick    Mode = "quick"
	Medium   Mode = "medium"
	Extended Mode = "extended"
)

// Status is what a check says of a table.
type Status string

// Statuses.
const (
	StatusOK         Status = "ok"
	StatusWarning    Status = "warning"     // someone should read the messages
	StatusCorrupt    Status = "corrupt"     // rows are lost or wrong, or the table can't be opened
	StatusNotChecked Status = "not checked" // the messages tell why
)

// CheckOptions says how to check tables.
type CheckOptions struct {
	Mode     Mode // "" is Medium
	Parallel int  // tables at a time, at most 32; below 1 is one
	// Patience is how long the check of one table may take, besides one second for each MiB of its files: a server may
	// run in circles over damaged records for ever. 0 is ten minutes.
	Patience time.Duration
	// OnTotal is told once how many tables there are, OnTable each one as it is done. They are called by one goroutine
	// at a time. They may be nil.
	OnTotal func(int)
	OnTable func(Table)
}

// Table is what a check found out about one table.
type Table struct {
	Schema, Name string
	Engine       string // as the server calls it, "" if it can't tell
	Status       Status
	Messages     []string // what the server said, other than OK; or what we say
	Elapsed      time.Duration
}

// String returns the name as "database.table".
func (t Table) String() string { return t.Schema + "." + t.Name }

const (
	// mostChecks is how many tables are checked at a time.
	mostChecks = 32
	// mostCrashes is after how many ends of the server the rest is left unchecked.
	mostCrashes = 20
	// defaultPatience is how long the check of a small table may take.
	defaultPatience = 10 * time.Minute
)

// CheckTables has the server check every base table, its own in mysql and sys included, and returns them sorted by name.
// Data files whose definition is lost are in the list, too. Tables whose engine may reach out of the data directory are
// never opened, and are not checked.
//
// A server that ends while it checks a table, or does not come to an end with it, is a finding about that table: another one is started for the rest, and
// handles that DB has returned before are closed. If it does not come up again, what is left is not checked, and DB is
// nil. The error is for an ended context, or a server that does not run or ended before it could say what there is to
// check.
func (s *Server) CheckTables(ctx context.Context, o CheckOptions) ([]Table, error) {
	if s.db == nil {
		return nil, errNotRunning
	}
	if o.Mode == "" {
		o.Mode = Medium
	}
	if !slices.Contains([]Mode{Quick, Medium, Extended}, o.Mode) {
		return nil, fmt.Errorf("unknown mode %q of a check", o.Mode)
	}
	c := &check{server: s, o: o, statement: checkTable}
	all, lost, err := c.survey(ctx)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	if o.OnTotal != nil {
		o.OnTotal(len(all) + len(lost))
	}
	for _, t := range lost {
		c.add(t)
	}
	if err := c.all(ctx, c.open(all)); err != nil {
		return nil, fmt.Errorf("check tables: %w", err)
	}
	slices.SortFunc(c.done, func(a, b Table) int { return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Name, b.Name)) })
	return c.done, nil
}

// survey asks what there is to check.
func (c *check) survey(ctx context.Context) (all []tables.Table, lost []Table, err error) {
	if all, err = tables.List(ctx, c.server.db); err != nil {
		return nil, nil, fmt.Errorf("list tables: %w", err)
	}
	if lost, err = c.server.orphans(ctx, all); err != nil {
		return nil, nil, fmt.Errorf("look for lost definitions: %w", err)
	}
	if c.sizes, err = c.server.sizes(); err != nil {
		return nil, nil, fmt.Errorf("look at the files: %w", err)
	}
	if c.keyed, err = hasKeys(ctx, c.server.db); err != nil {
		return nil, nil, fmt.Errorf("list plugins: %w", err)
	}
	if c.locked, err = c.server.locked(ctx); err != nil {
		return nil, nil, fmt.Errorf("list encrypted tables: %w", err)
	}
	return all, lost, nil
}

// open settles the tables that are not to be opened and returns the others.
func (c *check) open(all []tables.Table) []tables.Table {
	return slices.DeleteFunc(all, func(t tables.Table) bool {
		found := Table{Schema: t.Schema, Name: t.Name, Engine: t.Engine, Status: StatusNotChecked}
		switch kind := tables.KindOf(t.Engine); {
		case t.Engine == "": // the definition can't be read: the check says why
			return false
		case kind == tables.Empty:
			found.Status, found.Messages = StatusOK, []string{"engine " + t.Engine + " keeps nothing on disk"}
		case strings.HasPrefix(t.Comment, tables.Unloaded):
			found.Messages = []string{"engine " + t.Engine + " is not loaded"}
		case c.locked[tableName{t.Schema, t.Name}]:
			found.Messages = []string{"it is encrypted, and the server has no key for it"}
		case kind == tables.Foreign:
			found.Messages = []string{"engine " + t.Engine + " may reach out of the data directory"}
		default:
			return false
		}
		c.add(found)
		return true
	})
}

// CountRows counts the rows of every user table, see [server.CountRows].
func (s *Server) CountRows(ctx context.Context, o server.CountOptions) ([]server.Rows, error) {
	if s.db == nil {
		return nil, errNotRunning
	}
	rows, err := server.CountRows(ctx, s.db, o)
	return rows, s.explain(ctx, err)
}
