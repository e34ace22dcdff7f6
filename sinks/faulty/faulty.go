// Package faulty wraps a sink for tests and makes it fail where, when and how the test wants: a disk that is full at byte
// n, a Close that reports a quota, a slow or a dead store, a bit that flips. Only tests import it.
//
//	faults := faulty.New(faulty.Fault{Op: faulty.Write, After: 1000, Err: syscall.ENOSPC})
//	sink := faults.Wrap(local)
//	… run what must withstand it …
//	if faults.Struck() == 0 { t.Error("the fault was never met") }
package faulty

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"
)

// Op is an operation of a sink, or of what it hands out.
type Op string

// The operations. Abort, Unlock and CloseObject fail after they did their work; the others instead of it, unless Late.
const (
	Create         Op = "create"
	Write          Op = "write"  // of a Writer
	Commit         Op = "commit" // of a Writer; the object is aborted: a failing fsync, close or rename
	Abort          Op = "abort"  // of a Writer
	Open           Op = "open"
	ReadAt         Op = "read"  // of an Object
	CloseObject    Op = "close" // of an Object
	List           Op = "list"
	Remove         Op = "remove"
	Replace        Op = "replace"
	Lock           Op = "lock"
	Unlock         Op = "unlock" // of a Lock
	Leftovers      Op = "leftovers"
	RemoveLeftover Op = "remove leftover"
	Free           Op = "free"
)

// Err is the error of a Fault that names none.
var Err = errors.New("injected fault")

// Fault is one row of the table: which calls are hit, and what happens to them. The first row that matches a call and
// has something left to do is the one that strikes; a row that only delays lets the later rows have their turn.
type Fault struct {
	Op Op
	// Pattern selects objects by name as path.Match does ("*/*/data.*"); "" is every name. List, Leftovers and Free
	// are matched by their prefix, "" there.
	Pattern string
	// Skip lets that many matching calls pass before the first strike. Count is the number of strikes, 0 for no end.
	Skip, Count int
	// After is, for Write and ReadAt, the byte that is hit: those before it pass, a call that reaches it is struck
	// (one that ends right before it is not). It counts from the start of each object; with Total, for Write, over
	// all matching objects together, as on a disk that fills up.
	After int64
	Total bool
	// Err is returned; Err of this package if nil and the row has nothing else to do (Short, Flip, Delay, Block).
	Err error
	// Late lets the operation succeed before its error is returned, as when an answer is lost. For Create, Commit,
	// Remove and Replace.
	Late bool
	// Short breaks io's rules: Write takes the bytes before After and returns their number and no error; ReadAt
	// acts as if the object ended at After.
	Short bool
	// Flip, if not 0, is XORed into the byte at After, silently: on the way in for Write, on the way out for ReadAt.
	Flip byte
	// Delay comes before the call, then Block, if not nil, holds it until the channel is closed. Both end early
	// with the context's error. They strike even when the row has no error.
	Delay time.Duration
	Block <-chan struct{}
}

// Faults is a table of faults and what has become of it. Its methods may be called by several goroutines at once.
type Faults struct {
	mu     sync.Mutex
	rows   []row
	calls  map[Op]int
	struck int
}

type row struct {
	Fault
	seen, struck int
	total        int64 // bytes taken so far, all objects
}

// New returns a table of these faults.
func New(faults ...Fault) *Faults {
	f := &Faults{calls: map[Op]int{}}
	f.Set(faults...)
	return f
}

// Set replaces the table by these faults, all unused; with none, the sink is well again.
func (f *Faults) Set(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows = nil
	for _, fault := range faults {
		if _, err := path.Match(fault.Pattern, ""); err != nil {
			panic(fmt.Sprintf("faulty: pattern %q: %v", fault.Pattern, err))
		}
		f.rows = append(f.rows, row{Fault: fault})
	}
}

// Calls returns how often op was called, struck or not.
func (f *Faults) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// Struck returns how many times a fault did something, since New.
func (f *Faults) Struck() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.struck
}

// call is one call of an operation, and for Write and ReadAt which bytes of the object it wants.
type call struct {
	op      Op
	name    string
	offset  int64
	size    int
	ranged  bool
	written bool // bytes count for Total
}

// hit is what a row does to a call.
type hit struct {
	Fault
	pass int // number of bytes that come before the byte hit
}

// next returns the faults that strike c: any number that only delay, and then at most one other.
func (f *Faults) next(c call) []hit {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[c.op]++
	var hits []hit
	ended := false
	for i := range f.rows {
		r := &f.rows[i]
		if !r.matches(c) {
			continue
		}
		at := c.offset
		if r.Total && c.written {
			at = r.total
			r.total += int64(c.size)
		}
		if ended || !r.strikes(c, at) {
			continue
		}
		f.struck++
		hits = append(hits, hit{Fault: r.Fault, pass: int(max(0, min(r.After-at, int64(c.size))))})
		ended = !r.onlyDelays()
	}
	return hits
}

func (r *row) matches(c call) bool {
	if r.Op != c.op {
		return false
	}
	ok, _ := path.Match(r.Pattern, c.name) // the pattern was checked by Set
	return ok || r.Pattern == ""
}

// strikes counts the call and reports whether it is hit; at is the place of its first byte.
func (r *row) strikes(c call, at int64) bool {
	if c.ranged {
		end := at + int64(c.size)
		if end <= r.After && !(c.size == 0 && at >= r.After) {
			return false
		}
		if r.Flip != 0 && at > r.After {
			return false
		}
	}
	r.seen++
	if r.seen <= r.Skip || (r.Count > 0 && r.struck >= r.Count) {
		return false
	}
	r.struck++
	return true
}

func (r *row) onlyDelays() bool {
	return r.Err == nil && !r.Short && r.Flip == 0 && (r.Delay > 0 || r.Block != nil)
}

// wait delays and blocks as h says.
func (h *hit) wait(ctx context.Context) error {
	if h.Delay > 0 {
		timer := time.NewTimer(h.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if h.Block == nil {
		return nil
	}
	select {
	case <-h.Block:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failure is the error that h returns for a call, nil if it returns none.
func (h *hit) failure(c call) error {
	r := row{Fault: h.Fault}
	if r.onlyDelays() || (h.Err == nil && (h.Short || h.Flip != 0)) {
		return nil
	}
	err := h.Err
	if err == nil {
		err = Err
	}
	return fmt.Errorf("%s %q: %w", c.op, c.name, err)
}
