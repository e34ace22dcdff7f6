package scratch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Mismatch is a statement that did not return what it must.
type Mismatch struct {
	Statement
	Got  []string // the first rows it returned, in the form of [ParseSQL]'s file
	Rows int      // how many rows it returned
	Err  string   // the server's message if it failed, else ""
}

// mostGot is how many rows of a result are kept for a report.
const mostGot = 20

// String tells what went wrong, on one line.
func (m Mismatch) String() string {
	if m.Err != "" {
		return fmt.Sprintf("line %d: %s", m.Line, m.Err)
	}
	return fmt.Sprintf("line %d: got %s, want %s", m.Line, list(m.Got, m.Rows), list(m.Want, len(m.Want)))
}

// list shows rows.
func list(rows []string, all int) string {
	shown := rows[:min(len(rows), 5)]
	text := fmt.Sprintf("%d rows %q", all, shown)
	switch {
	case all == 0:
		return "no rows"
	case all == 1:
		return fmt.Sprintf("%q", shown[0])
	case all > len(shown):
		return text + "…"
	}
	return text
}

// readOnly keeps statements from changing tables of any engine. That the server is one for restored data is not enough:
// without grant tables everybody has the right to write in spite of its being read-only.
const readOnly = "SET SESSION TRANSACTION READ ONLY"

// RunSQL runs statements in one session, which begins as a read-only one, and returns those that failed or returned
// something else than they must, in their order. It goes on after a failure. The error is for an ended context or a
// server that has ended ([ErrEnded]); it names the statement.
func (s *Server) RunSQL(ctx context.Context, statements []Statement) (wrong []Mismatch, err error) {
	if s.db == nil {
		return nil, errNotRunning
	}
	db, err := s.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	defer conn.Close() // the handle is closed anyway
	if _, err := conn.ExecContext(ctx, readOnly); err != nil {
		return nil, fmt.Errorf("make the session read-only: %w", err)
	}
	for _, statement := range statements {
		m, err := run(ctx, conn, statement)
		if err != nil {
			return wrong, fmt.Errorf("statement in line %d: %w", statement.Line, s.explain(ctx, err))
		}
		if m.Err != "" || statement.Expects && (m.Rows != len(statement.Want) || !slices.Equal(m.Got, statement.Want[:len(m.Got)])) {
			wrong = append(wrong, m)
		}
	}
	return wrong, nil
}

// run runs one statement. All rows that something is expected of are compared: Got is cut only after that.
func run(ctx context.Context, conn *sql.Conn, statement Statement) (Mismatch, error) {
	m := Mismatch{Statement: statement}
	keep := max(mostGot, len(statement.Want))
	err := func() error {
		rows, err := conn.QueryContext(ctx, statement.SQL)
		if err != nil {
			return err
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		values, into := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				return err
			}
			if m.Rows++; m.Rows <= keep {
				m.Got = append(m.Got, row(values))
			}
		}
		return rows.Err()
	}()
	var refused *mysql.MySQLError
	if errors.As(err, &refused) && refused.Number != serverShutdown {
		m.Err = refused.Error()
		return m, nil
	}
	return m, err
}

// row writes a row in the form of the file.
func row(values []sql.RawBytes) string {
	escape := strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`, "\x00", `\0`)
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = "NULL"
		if v != nil {
			texts[i] = escape.Replace(string(v))
		}
	}
	return strings.Join(texts, "\t")
}
