package scratch

import (
	"context"
	"time"

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
	Parallel int  // tables at a time; below 1 is one
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

// CheckTables has the server check every base table, its own in mysql and sys included, sorted by name. See the package
// comment.
func (s *Server) CheckTables(ctx context.Context, o CheckOptions) ([]Table, error) {
	return nil, errNotRunning
}

// CountRows counts the rows of every user table, see [server.CountRows].
func (s *Server) CountRows(ctx context.Context, o server.CountOptions) ([]server.Rows, error) {
	if s.db == nil {
		return nil, errNotRunning
	}
	return server.CountRows(ctx, s.db, o)
}
