package sinks

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
)

// errNoChild is what a FanOut without children says.
var errNoChild = errors.New("no sink to write to")

// FanOut is one Writer over several, so that one pass fills several sinks. Every child gets every byte. A child that
// fails is aborted and dropped, its error kept, and the others go on. The zero value is ready for Add. Like every Writer
// it belongs to one goroutine.
//
// Children are written at the same time, and Write returns when the last is done: the slowest sets the pace, and no byte
// is copied or kept. Who must not wait puts a buffer in front of a child.
type FanOut struct {
	children []fanChild
	err      error // why Write and Commit fail from now on
}

type fanChild struct {
	writer Writer // nil once failed, committed or aborted
	err    error  // why it was dropped
}

var _ Writer = (*FanOut)(nil)

// Add makes w the next child; it takes the result of Create as it is: if err is not nil the child counts as dropped
// already, so that the order of Errs is that of Add. All children are added before the first Write.
func (f *FanOut) Add(w Writer, err error) {
	if err == nil && w == nil {
		err = errNoChild
	}
	if err != nil {
		w = nil
	}
	f.children = append(f.children, fanChild{writer: w, err: err})
}

// Errs returns for each child, in the order of Add, why it was dropped or could not commit; nil for those that are well.
func (f *FanOut) Errs() []error {
	errs := make([]error, len(f.children))
	for i := range f.children {
		errs[i] = f.children[i].err
	}
	return errs
}

// Write hands p to every living child. It fails only when none is left.
func (f *FanOut) Write(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	if f.living() == 0 { // committed, or never had a child
		return 0, cmp.Or(f.failure(), error(fs.ErrClosed))
	}
	f.each(func(c *fanChild) {
		n, err := c.writer.Write(p)
		if err == nil && n != len(p) {
			err = io.ErrShortWrite
		}
		if err != nil {
			c.err = also(err, c.writer.Abort())
			c.writer = nil
		}
	})
	if f.living() == 0 {
		f.err = f.failure()
		return 0, f.err
	}
	return len(p), nil
}

// Commit commits every living child. It returns nil only if all children, also those dropped before, are stored; else
// Errs tells which are: there the object is durable and visible, whatever became of the others.
func (f *FanOut) Commit() error {
	if f.err != nil {
		return f.err
	}
	f.each(func(c *fanChild) {
		c.err = c.writer.Commit()
		c.writer = nil
	})
	f.err = f.failure()
	return f.err
}

// Abort aborts every living child. Harmless twice and after Commit.
func (f *FanOut) Abort() error {
	var mu sync.Mutex
	var left error
	f.each(func(c *fanChild) {
		err := c.writer.Abort()
		c.writer, c.err = nil, errAborted
		mu.Lock()
		defer mu.Unlock()
		left = also(left, err)
	})
	if f.err == nil {
		f.err = f.failure()
	}
	return left
}

// errAborted is the error of a child that was given up with the whole.
var errAborted = errors.New("write aborted")

// each calls do for every living child, all at once if they are several, and returns when all are done.
func (f *FanOut) each(do func(*fanChild)) {
	var group sync.WaitGroup
	several := f.living() > 1
	for i := range f.children {
		c := &f.children[i]
		switch {
		case c.writer == nil:
		case several:
			group.Go(func() { do(c) })
		default:
			do(c)
		}
	}
	group.Wait()
}

func (f *FanOut) living() int {
	n := 0
	for i := range f.children {
		if f.children[i].writer != nil {
			n++
		}
	}
	return n
}

// failure is one error for those of all children, nil if there is none.
func (f *FanOut) failure() error {
	if len(f.children) == 0 {
		return errNoChild
	}
	failed := fanError{}
	for _, err := range f.Errs() {
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d sinks failed: %w", len(failed), len(f.children), failed)
}

// fanError is several errors in one line.
type fanError []error

func (e fanError) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (e fanError) Unwrap() []error { return e }
