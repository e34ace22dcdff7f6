package scratch

import (
	"context"
	"errors"
	"io"
)

// Statement is one statement of a file of statements, and what it must return.
type Statement struct {
	Line    int      // where it begins, from 1
	SQL     string   // without its semicolon
	Expects bool     // there is something it must return
	Want    []string // the rows it must return, their values separated by tabs
}

// Mismatch is a statement that did not return what it must.
type Mismatch struct {
	Statement
	Got []string // the rows it returned, the first ones
	Err string   // the server's message if it failed, else ""
}

// ParseSQL reads a file of statements.
func ParseSQL(r io.Reader) ([]Statement, error) { return nil, errors.ErrUnsupported }

// RunSQL runs statements in one read-only session and returns those that failed or returned something else than they
// must.
func (s *Server) RunSQL(ctx context.Context, statements []Statement) ([]Mismatch, error) {
	return nil, errNotRunning
}
