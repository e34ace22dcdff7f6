package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// outputError is a failure to write standard output.
type outputError struct{ err error }

func (e *outputError) Error() string { return "write standard output: " + e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// output remembers the first failure of standard output, so that a command that prints a report need not look.
type output struct {
	w      io.Writer
	err    error
	binary bool // carries a stream: nothing else may be written to it
}

// binaryStdout returns standard output for a stream of bytes. The final error goes to standard error from now on, also
// as JSON: behind half a stream it would be taken for part of it.
func (e *Env) binaryStdout() io.Writer {
	if o, ok := e.Stdout.(*output); ok {
		o.binary = true
	}
	return e.Stdout
}

func (o *output) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	if err != nil {
		o.err = &outputError{err}
	}
	return n, o.err
}

// writeJSON writes v, indented, on w. Fields come in the order of the struct; times should be moments.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// moment is a time as JSON shows it: RFC 3339 in UTC, whole seconds; null for the zero time.
type moment time.Time

// MarshalJSON writes the moment.
func (m moment) MarshalJSON() ([]byte, error) {
	t := time.Time(m)
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + t.UTC().Format(time.RFC3339) + `"`), nil
}

// table collects rows for people and writes them in aligned columns.
type table struct {
	right []bool // which columns are numbers
	rows  [][]string
}

// newTable starts a table; a heading that starts with ">" makes a column of numbers.
func newTable(headings ...string) *table {
	t := &table{right: make([]bool, len(headings))}
	row := make([]string, len(headings))
	for i, h := range headings {
		row[i], t.right[i] = strings.CutPrefix(h, ">")
	}
	t.rows = append(t.rows, row)
	return t
}

// add adds a row. Control characters are shown as what they are: names come from outside and must not move the cursor.
func (t *table) add(cells ...string) {
	row := make([]string, len(t.right))
	for i := range row {
		if i < len(cells) {
			row[i] = printable(cells[i])
		}
		if row[i] == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// write writes the table.
func (t *table) write(w io.Writer) error {
	widths := make([]int, len(t.right))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.right[i] {
				line.WriteString(pad + cell + "  ")
				continue
			}
			line.WriteString(cell + pad + "  ")
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// printable quotes s if it holds anything that a terminal would act on.
func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError }) < 0 {
		return s
	}
	return fmt.Sprintf("%+q", s)
}
