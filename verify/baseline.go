package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mbwrap/mbwrap/mariadb/server"
)

// Baseline is how many rows the tables of a server had at a time. A restored backup is compared with one.
type Baseline struct {
	Time   time.Time        `json:"time"`   // when the counting began
	Server string           `json:"server"` // its name, for people
	Tables map[string]int64 `json:"tables"` // rows by "db.table"; tables that could not be counted are left out
}

// maxBaseline bounds what ReadBaseline reads, in bytes: room for a million tables.
const maxBaseline = 256 << 20

// Set takes over what a server counted.
func (b *Baseline) Set(rows []server.Rows) {
	b.Tables = make(map[string]int64, len(rows))
	for _, r := range rows {
		if r.Count >= 0 {
			b.Tables[r.Schema+"."+r.Name] = r.Count
		}
	}
}

// ReadBaseline reads what Write wrote.
func ReadBaseline(r io.Reader) (*Baseline, error) {
	limited := &io.LimitedReader{R: r, N: maxBaseline + 1}
	decoder := json.NewDecoder(limited)
	decoder.DisallowUnknownFields()
	b := new(Baseline)
	err := decoder.Decode(b)
	switch {
	case limited.N <= 0:
		return nil, fmt.Errorf("read baseline: it has more than %d bytes", int64(maxBaseline))
	case err != nil:
		return nil, fmt.Errorf("read baseline: %w", err)
	case decoder.More():
		return nil, errors.New("read baseline: something follows its end")
	case b.Tables == nil || b.Time.IsZero():
		return nil, errors.New("read baseline: it has no time or no tables")
	}
	for name, n := range b.Tables {
		if n < 0 {
			return nil, fmt.Errorf("read baseline: table %q has %d rows", name, n)
		}
	}
	return b, nil
}

// Write writes the baseline as JSON.
func (b *Baseline) Write(w io.Writer) error {
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// difference is a table that is not as the baseline says.
type difference struct{ table, text string }

// compare tells how the rows of a restored server differ: what is wrong, and what is only worth knowing. drift is the
// fraction of a table's rows by which it may differ.
func (b *Baseline) compare(rows []server.Rows, drift float64) (wrong []difference, notes []string) {
	found := make(map[string]bool, len(rows))
	for _, r := range rows {
		name := r.Schema + "." + r.Name
		found[name] = true
		want, known := b.Tables[name]
		switch {
		case !known && r.Count >= 0:
			notes = append(notes, fmt.Sprintf("table %s with %d rows is not in the baseline", name, r.Count))
		case known && r.Count < 0:
			notes = append(notes, fmt.Sprintf("table %s could not be counted: %s", name, r.Reason))
		case known && math.Abs(float64(r.Count-want)) > drift*float64(want):
			wrong = append(wrong, difference{name, fmt.Sprintf("table %s has %d rows, the baseline of %s says %d",
				name, r.Count, b.Time.Format(time.RFC3339), want)})
		}
	}
	for name, want := range b.Tables {
		if !found[name] {
			wrong = append(wrong, difference{name, fmt.Sprintf("table %s is missing, the baseline of %s says it has %d rows",
				name, b.Time.Format(time.RFC3339), want)})
		}
	}
	slices.SortFunc(wrong, func(x, y difference) int { return strings.Compare(x.table, y.table) })
	return wrong, notes
}
