package backup

import (
	"slices"
	"testing"

	"github.com/mbwrap/mbwrap/xbstream"
)

// definition returns the first bytes of a table's definition for an engine.
func definition(engine byte) []byte { return []byte{0xfe, 1, 10, engine, 3, 0} }

// see shows t a chunk, with its payload in pieces of one byte.
func see(t *tables, c xbstream.Chunk, payload []byte) {
	_ = t.Chunk(&c) // it returns nil always
	for i := range payload {
		_ = t.Data(payload[i : i+1])
	}
}

func put(path string, payload []byte) func(*tables) {
	return func(t *tables) {
		see(t, xbstream.Chunk{Header: xbstream.Header{Type: xbstream.TypePayload, Path: path, Size: int64(len(payload))}}, payload)
		see(t, xbstream.Chunk{Header: xbstream.Header{Type: xbstream.TypeEnd, Path: path}}, nil)
	}
}

func empty(path string) func(*tables) {
	return func(t *tables) {
		see(t, xbstream.Chunk{Header: xbstream.Header{Type: xbstream.TypeEnd, Path: path}}, nil)
	}
}

func move(from, to string) func(*tables) {
	return func(t *tables) {
		see(t, xbstream.Chunk{Header: xbstream.Header{Type: xbstream.TypeRename, Path: from, NewPath: to}}, nil)
	}
}

func drop(path string) func(*tables) {
	return func(t *tables) {
		see(t, xbstream.Chunk{Header: xbstream.Header{Type: xbstream.TypeRemove, Path: path}}, nil)
	}
}

func TestTablesWithoutData(t *testing.T) {
	data := []byte("data")
	aria := []func(*tables){put("db/t.MAI", data), put("db/t.MAD", data)}
	tests := map[string]struct {
		steps []func(*tables)
		want  []string
	}{
		"nothing":              {nil, nil},
		"whole":                {append(slices.Clone(aria), put("db/t.frm", definition(42))), nil},
		"definition first":     {append([]func(*tables){put("db/t.frm", definition(42))}, aria...), nil},
		"no data":              {[]func(*tables){put("db/t.frm", definition(42))}, []string{"db.t"}},
		"half of the data":     {[]func(*tables){aria[0], put("db/t.frm", definition(42))}, []string{"db.t"}},
		"empty MyISAM":         {[]func(*tables){put("db/t.MYI", data), empty("db/t.MYD"), put("db/t.frm", definition(9))}, nil},
		"MyISAM without data":  {[]func(*tables){put("db/t.MYI", data), put("db/t.frm", definition(9))}, []string{"db.t"}},
		"CSV":                  {[]func(*tables){put("db/t.CSV", data), put("db/t.CSM", data), put("db/t.frm", definition(17))}, nil},
		"CSV without data":     {[]func(*tables){put("db/t.CSM", data), put("db/t.frm", definition(17))}, []string{"db.t"}},
		"InnoDB":               {[]func(*tables){put("db/t.frm", definition(12))}, nil},
		"partitioned":          {[]func(*tables){put("db/t.frm", definition(20)), put("db/t#P#p0.MYI", data)}, nil},
		"view":                 {[]func(*tables){put("db/v.frm", []byte("TYPE=VIEW\n"))}, nil},
		"too short":            {[]func(*tables){put("db/t.frm", []byte{0xfe, 1, 10})}, nil},
		"other magic":          {[]func(*tables){put("db/t.frm", []byte{1, 1, 10, 42})}, nil},
		"engine changed":       {[]func(*tables){put("db/t.frm", definition(42)), put("db/t.frm", definition(12))}, nil},
		"renamed whole":        {append(slices.Clone(aria), put("db/t.frm", definition(42)), move("db/t.frm", "db/u.frm"), move("db/t.MAI", "db/u.MAI"), move("db/t.MAD", "db/u.MAD")), nil},
		"definition renamed":   {append(slices.Clone(aria), put("db/t.frm", definition(42)), move("db/t.frm", "db/u.frm")), []string{"db.u"}},
		"data never came":      {[]func(*tables){move("db/t.MAI", "db/u.MAI"), move("db/t.MAD", "db/u.MAD"), put("db/u.frm", definition(42))}, []string{"db.u"}},
		"dropped":              {append(slices.Clone(aria), put("db/t.frm", definition(42)), drop("db/t.frm"), drop("db/t.MAI"), drop("db/t.MAD")), nil},
		"data dropped":         {append(slices.Clone(aria), put("db/t.frm", definition(42)), drop("db/t.MAI")), []string{"db.t"}},
		"database dropped":     {[]func(*tables){put("db/t.frm", definition(42)), put("dc/t.frm", definition(42)), drop("db")}, []string{"dc.t"}},
		"dropped by prefix":    {[]func(*tables){put("db/t1.frm", definition(42)), put("db/u.frm", definition(42)), drop("db/t*")}, []string{"db.u"}},
		"top level":            {[]func(*tables){put("t.frm", definition(42))}, nil},
		"several, sorted":      {[]func(*tables){put("b/t.frm", definition(9)), put("a/t.frm", definition(9))}, []string{"a.t", "b.t"}},
		"sent again, complete": {[]func(*tables){put("db/t.frm", definition(42)), aria[0], aria[1], put("db/t.frm", definition(42))}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var all tables
			for _, step := range tt.steps {
				step(&all)
			}
			if got := all.bare(); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
