package scratch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Statement is one statement of a file of statements, and what it must return.
type Statement struct {
	Line    int      // where it begins, from 1
	SQL     string   // without its semicolon
	Expects bool     // there is something it must return
	Want    []string // the rows it must return, in the form of the file
}

// mostScript is the largest file of statements that is taken, in bytes.
const mostScript = 1 << 20

// ParseSQL reads a file of statements, at most 1 MiB of it.
//
// A statement ends with a semicolon. The lines after it tell what it must return:
//
//	SELECT COUNT(*) > 1000, MAX(id) FROM shop.orders;
//	-- expect: 1	4711
//	SELECT name FROM shop.countries WHERE code IN ('CH', 'LI') ORDER BY code;
//	-- expect: Switzerland
//	-- expect: Liechtenstein
//	SELECT * FROM shop.orphans;
//	-- expect none
//
// Each "-- expect:" line is one row, its values separated by tabs; after the colon comes one blank, which does not
// count, and then every character counts. NULL is written NULL; a tab, line feed, carriage return, zero byte or backslash
// in a value is written \t, \n, \r, \0, \\. "-- expect none" stands for no rows at all. A statement without any of these
// must merely succeed. Other comments, of all three kinds, and empty lines are passed over. DELIMITER and other commands
// of client programs are not known.
func ParseSQL(r io.Reader) ([]Statement, error) {
	text, err := io.ReadAll(io.LimitReader(r, mostScript+1))
	if err != nil {
		return nil, err
	}
	if len(text) > mostScript {
		return nil, fmt.Errorf("file of statements is larger than %d bytes", mostScript)
	}
	p := &parser{text: bytes.TrimPrefix(text, []byte("\ufeff")), line: 1}
	for p.at < len(p.text) {
		if err := p.step(); err != nil {
			return nil, err
		}
	}
	if p.inside {
		return nil, p.errorf(p.start, "the statement has no semicolon at its end")
	}
	return p.all, nil
}

// parser walks through a file. Its place is always between two pieces: a comment, a quoted text, one other character.
type parser struct {
	text   []byte
	at     int
	line   int // of at
	all    []Statement
	inside bool // a statement has begun, at begin, in line start
	begin  int
	start  int
}

func (p *parser) errorf(line int, format string, args ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{line}, args...)...)
}

// step takes one piece.
func (p *parser) step() error {
	rest := p.text[p.at:]
	switch c := rest[0]; {
	case c == '#' || bytes.HasPrefix(rest, []byte("--")) && (len(rest) == 2 || rest[2] <= ' '):
		return p.lineComment()
	case bytes.HasPrefix(rest, []byte("/*")) && !p.inside && !isExecuted(rest):
		return p.skipTo("*/", 2, "comment")
	case c <= ' ' && !p.inside:
		p.skip(1)
		return nil
	}
	if !p.inside {
		p.inside, p.begin, p.start = true, p.at, p.line
	}
	switch c := rest[0]; {
	case c == ';':
		p.finish()
		return nil
	case c == '\'' || c == '"' || c == '`':
		return p.quoted(c)
	case bytes.HasPrefix(rest, []byte("/*")) && !isExecuted(rest):
		return p.skipTo("*/", 2, "comment")
	}
	p.skip(1)
	return nil
}

// isExecuted tells whether a comment is one whose text the server executes: /*! … */ and /*M! … */.
func isExecuted(rest []byte) bool {
	return bytes.HasPrefix(rest, []byte("/*!")) || bytes.HasPrefix(rest, []byte("/*M!"))
}

// skip goes n bytes on.
func (p *parser) skip(n int) {
	p.line += bytes.Count(p.text[p.at:p.at+n], []byte("\n"))
	p.at += n
}

// skipTo goes behind the next end, which is looked for after the first bytes.
func (p *parser) skipTo(end string, first int, what string) error {
	i := bytes.Index(p.text[p.at+first:], []byte(end))
	if i < 0 {
		return p.errorf(p.line, "the %s does not end", what)
	}
	p.skip(first + i + len(end))
	return nil
}

// quoted goes behind a quoted text or name. A quote in it is doubled, or in a text has a backslash before it.
func (p *parser) quoted(quote byte) error {
	line := p.line
	for i := 1; p.at+i < len(p.text); i++ {
		switch c := p.text[p.at+i]; {
		case c == '\\' && quote != '`':
			i++
		case c == quote:
			p.skip(i + 1) // a doubled one begins the next piece
			return nil
		}
	}
	return p.errorf(line, "the text or name in %c does not end", quote)
}

// finish ends the statement at a semicolon.
func (p *parser) finish() {
	if sql := strings.TrimSpace(string(p.text[p.begin:p.at])); sql != "" {
		p.all = append(p.all, Statement{Line: p.start, SQL: sql})
	}
	p.inside = false
	p.skip(1)
}

// lineComment takes a comment up to the line's end; outside of statements it may say what the last one must return.
func (p *parser) lineComment() error {
	line := p.text[p.at:]
	if i := bytes.IndexByte(line, '\n'); i >= 0 {
		line = line[:i]
	}
	at := p.line
	p.skip(len(line))
	comment := strings.TrimSuffix(string(line), "\r")
	word := strings.ToLower(strings.TrimLeft(strings.TrimLeft(comment, "-#"), " \t"))
	if !strings.HasPrefix(word, "expect") {
		return nil
	}
	row, isRow := strings.CutPrefix(comment, "-- expect:")
	none := strings.TrimRight(comment, " \t") == "-- expect none"
	switch {
	case !isRow && !none:
		return p.errorf(at, "%q is neither %q nor %q", comment, "-- expect: VALUE", "-- expect none")
	case p.inside:
		return p.errorf(at, "an expectation within the statement of line %d: is there no semicolon before?", p.start)
	case len(p.all) == 0:
		return p.errorf(at, "an expectation without a statement")
	}
	return p.expect(at, strings.TrimPrefix(row, " "), none)
}

// expect adds to what the last statement must return.
func (p *parser) expect(line int, row string, none bool) error {
	s := &p.all[len(p.all)-1]
	switch {
	case s.Expects && (none || len(s.Want) == 0):
		return p.errorf(line, "%w", errNone)
	case !none:
		s.Want = append(s.Want, row)
	}
	s.Expects = true
	return nil
}

var errNone = errors.New(`"-- expect none" stands alone`)
