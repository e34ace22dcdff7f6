package gendata

import (
	"encoding/binary"
	"strconv"
	"time"
)

// table is one table of a kind: how to make it and how to make its rows.
type table struct {
	database string
	name     string
	create   string // columns and options, what follows the name in CREATE TABLE
	rows     int
	row      func(e *row, i int) // fills in row i, counted from 0
}

// row collects the fields of one row as text that LOAD DATA reads with its default settings. No generated value holds
// a tab, a newline or a backslash, so nothing is escaped.
type row struct {
	buf []byte
	r   random
	w   *words
	// binary makes fields as they stand in a page, without separators, instead of as text
	binary bool
}

func (e *row) sep() {
	if !e.binary {
		e.buf = append(e.buf, '\t')
	}
}

func (e *row) int(v int) {
	if e.binary {
		e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)^1<<31)
		return
	}
	e.buf = strconv.AppendInt(e.buf, int64(v), 10)
	e.sep()
}

func (e *row) str(s string) {
	e.buf = append(e.buf, s...)
	e.sep()
}

// cents adds an amount of money with two decimal places.
func (e *row) cents(v int) {
	if e.binary {
		e.int(v)
		return
	}
	e.buf = strconv.AppendInt(e.buf, int64(v/100), 10)
	e.buf = append(e.buf, '.')
	e.buf = appendDigits(e.buf, uint64(v%100), 2)
	e.sep()
}

// digits adds n random digits.
func (e *row) digits(n int) {
	e.buf = appendDigits(e.buf, e.r.next(), n)
	e.sep()
}

// groups adds n groups of eleven random digits with dashes between them.
func (e *row) groups(n int) {
	for i := range n {
		if i > 0 {
			e.buf = append(e.buf, '-')
		}
		e.buf = appendDigits(e.buf, e.r.next()>>27, 11)
	}
	e.sep()
}

func (e *row) text(n int) {
	e.buf = e.w.appendText(e.buf, &e.r, n)
	e.sep()
}

// opening is the moment at which the generated business starts.
func opening() time.Time { return time.Date(2024, time.January, 2, 8, 0, 0, 0, time.UTC) }

// moment adds the time of event i of n: events follow each other over two years, a little irregularly.
func (e *row) moment(i, n int) {
	const years = 2 * 365 * 24 * 3600
	second := int(int64(years) * int64(i) / int64(n))
	at := opening().Add(time.Duration(second+e.r.below(600)) * time.Second)
	if e.binary {
		e.int(int(at.Unix()))
		return
	}
	e.buf = at.AppendFormat(e.buf, time.DateTime)
	e.sep()
}

func (e *row) null() {
	if !e.binary {
		e.str(`\N`)
	}
}

// address adds street, city, state and zip code.
func (e *row) address() {
	e.buf = strconv.AppendInt(e.buf, int64(e.r.between(1, 180)), 10)
	e.buf = append(e.buf, ' ')
	e.buf = append(e.buf, pick(&e.r, e.w.street)...)
	e.buf = append(e.buf, ' ')
	e.str(pick(&e.r, e.w.way))
	e.str(pick(&e.r, e.w.city))
	e.str(pick(&e.r, e.w.state))
	e.digits(5)
}

// product adds what an article is called.
func (e *row) product() {
	e.buf = append(e.buf, pick(&e.r, e.w.quality)...)
	e.buf = append(e.buf, ' ')
	e.str(pick(&e.r, e.w.noun))
}

// appendRow appends row i of t as one line.
func (t *table) appendRow(e *row, seed uint64, i int) {
	e.r = newRandom(seed, t.name, i)
	t.row(e, i)
	if !e.binary {
		e.buf[len(e.buf)-1] = '\n' // in place of the last tab
	}
}
