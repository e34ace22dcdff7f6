// Package gendata makes the data that the demonstration, the benchmark and the tests work on: tables of two kinds for
// a real server, and whole backup streams without one.
//
// The two kinds stand at the ends of what servers hold. [Sysbench] is nearly random digits, which no compressor likes
// but its entropy coder; [TPCC] is business rows: names, streets, dates, short repeated texts. Besides them there is a
// table of every sort that a backup treats in its own way, see [Options].
//
// The same seed always gives the same bytes, on every machine. The package is for tests and measurements only; the
// product never imports it.
package gendata

import "fmt"

// Kind is a kind of data.
type Kind string

// The kinds of data.
const (
	Sysbench Kind = "sysbench" // the tables of sysbench's oltp tests
	TPCC     Kind = "tpcc"     // an order-entry business in the manner of TPC-C
)

// ParseKind returns the kind of that name.
func ParseKind(name string) (Kind, error) {
	switch k := Kind(name); k {
	case Sysbench, TPCC:
		return k, nil
	}
	return "", fmt.Errorf("unknown kind of data %q: one of %s, %s", name, Sysbench, TPCC)
}
