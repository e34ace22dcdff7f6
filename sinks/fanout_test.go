package sinks_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/sinks/faulty"
)

func newLocal(t *testing.T) *sinks.Local {
	t.Helper()
	l, err := sinks.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// content reads the object called name, or says why it can't.
func content(t *testing.T, s sinks.Sink, name string) ([]byte, error) {
	t.Helper()
	o, err := s.Open(t.Context(), name)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return io.ReadAll(io.NewSectionReader(o, 0, o.Size()))
}

func TestFanOut(t *testing.T) {
	full := faulty.Fault{Op: faulty.Write, After: 25_000, Err: syscall.ENOSPC}
	short := faulty.Fault{Op: faulty.Write, After: 25_000, Short: true}
	commit := faulty.Fault{Op: faulty.Commit, Err: syscall.EDQUOT}
	create := faulty.Fault{Op: faulty.Create, Err: syscall.EACCES}
	cases := []struct {
		name   string
		faults []faulty.Fault // one sink for each; the zero fault is none
		write  error          // of the whole
		want   []error        // of each
	}{
		{"one", []faulty.Fault{{}}, nil, []error{nil}},
		{"three", []faulty.Fault{{}, {}, {}}, nil, []error{nil, nil, nil}},
		{"one is full", []faulty.Fault{{}, full, {}}, nil, []error{nil, syscall.ENOSPC, nil}},
		{"one writes short", []faulty.Fault{short, {}}, nil, []error{io.ErrShortWrite, nil}},
		{"one can't create", []faulty.Fault{create, {}}, nil, []error{syscall.EACCES, nil}},
		{"one can't commit", []faulty.Fault{{}, commit}, nil, []error{nil, syscall.EDQUOT}},
		{"two fail differently", []faulty.Fault{full, {}, commit}, nil, []error{syscall.ENOSPC, nil, syscall.EDQUOT}},
		{"all are full", []faulty.Fault{full, full}, syscall.ENOSPC, []error{syscall.ENOSPC, syscall.ENOSPC}},
		{"none can create", []faulty.Fault{create, create}, syscall.EACCES, []error{syscall.EACCES, syscall.EACCES}},
		{"none can commit", []faulty.Fault{commit, commit}, nil, []error{syscall.EDQUOT, syscall.EDQUOT}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var f sinks.FanOut
			defer f.Abort()
			locals := make([]*sinks.Local, len(c.faults))
			for i, fault := range c.faults {
				locals[i] = newLocal(t)
				f.Add(faulty.New(fault).Wrap(locals[i]).Create(t.Context(), "a/object"))
			}
			want, err := fill(&f)
			if !errors.Is(err, c.write) {
				t.Errorf("write: got %v, want %v", err, c.write)
			}
			err = f.Commit()
			for i, got := range f.Errs() {
				if !errors.Is(got, c.want[i]) || !errors.Is(err, c.want[i]) && c.want[i] != nil {
					t.Errorf("sink %d: got %v of %v, want %v", i, got, err, c.want[i])
				}
				checkChild(t, locals[i], want, c.want[i])
			}
			if allWell := errors.Join(c.want...) == nil; (err == nil) != allWell {
				t.Errorf("commit: got %v, want nil: %v", err, allWell)
			}
			if again := f.Commit(); again != err {
				t.Errorf("commit again: got %v, want %v", again, err)
			}
			if _, err := f.Write([]byte("x")); err == nil {
				t.Error("write after commit: got nil, want an error")
			}
			if err := f.Abort(); err != nil {
				t.Errorf("abort after commit: got %v, want nil", err)
			}
		})
	}
}

// fill writes from one buffer that changes each time, and returns all that was written.
func fill(w io.Writer) ([]byte, error) {
	var all []byte
	buf := make([]byte, 10_000)
	for i := range 10 {
		for j := range buf {
			buf[j] = byte(i * j)
		}
		n, err := w.Write(buf)
		if err != nil {
			return all, err
		}
		if n != len(buf) {
			return all, fmt.Errorf("wrote %d, want %d", n, len(buf))
		}
		all = append(all, buf...)
		clear(buf)
	}
	return all, nil
}

// checkChild checks that a sink has the whole object, or nothing at all if it failed.
func checkChild(t *testing.T, l *sinks.Local, want []byte, failed error) {
	t.Helper()
	got, err := content(t, l, "a/object")
	switch {
	case failed != nil && !errors.Is(err, fs.ErrNotExist):
		t.Errorf("failed sink: got %d bytes, %v, want fs.ErrNotExist", len(got), err)
	case failed == nil && (err != nil || !bytes.Equal(got, want)):
		t.Errorf("good sink: got %d bytes, %v, want the %d written", len(got), err, len(want))
	}
	if left, err := l.Leftovers(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("leftovers: got %v, %v, want none, nil", left, err)
	}
}

func TestFanOutAbort(t *testing.T) {
	a, b := newLocal(t), newLocal(t)
	var f sinks.FanOut
	f.Add(a.Create(t.Context(), "object"))
	f.Add(faulty.New(faulty.Fault{Op: faulty.Abort}).Wrap(b).Create(t.Context(), "object"))
	if _, err := fill(&f); err != nil {
		t.Fatal(err)
	}
	if err := f.Abort(); !errors.Is(err, faulty.Err) {
		t.Errorf("abort: got %v, want the child's error", err)
	}
	if err := f.Abort(); err != nil {
		t.Errorf("abort again: got %v, want nil", err)
	}
	if err := f.Commit(); err == nil {
		t.Error("commit after abort: got nil, want an error")
	}
	for _, l := range []*sinks.Local{a, b} {
		checkChild(t, l, nil, fs.ErrClosed)
	}
	if errs := f.Errs(); errs[0] == nil || errs[1] == nil {
		t.Errorf("got %v, want an error for each", errs)
	}
}

func TestFanOutWithoutChildren(t *testing.T) {
	var f sinks.FanOut
	if _, err := f.Write([]byte("x")); err == nil {
		t.Error("write: got nil, want an error: the bytes went nowhere")
	}
	if err := f.Commit(); err == nil {
		t.Error("commit: got nil, want an error")
	}
	if err := f.Abort(); err != nil {
		t.Errorf("abort: got %v, want nil", err)
	}
	f = sinks.FanOut{}
	f.Add(nil, nil)
	if errs := f.Errs(); len(errs) != 1 || errs[0] == nil {
		t.Errorf("got %v, want an error for the missing writer", errs)
	}
}

// A slow child holds Write back, so that the buffer is not used again too early, but not the other children.
func TestFanOutSlowChild(t *testing.T) {
	a, b := newLocal(t), newLocal(t)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		quick := faulty.New()
		var f sinks.FanOut
		f.Add(faulty.New(faulty.Fault{Op: faulty.Write, Block: release}).Wrap(a).Create(t.Context(), "a/object"))
		f.Add(quick.Wrap(b).Create(t.Context(), "a/object"))
		done := make(chan []byte)
		go func() {
			all, err := fill(&f)
			if err != nil {
				t.Errorf("write: got %v, want nil", err)
			}
			done <- all
		}()
		synctest.Wait()
		if got := quick.Calls(faulty.Write); got != 1 {
			t.Errorf("while the other blocks: got %d writes, want the first one done and no second", got)
		}
		close(release)
		want := <-done
		if err := f.Commit(); err != nil {
			t.Fatal(err)
		}
		checkChild(t, a, want, nil)
		checkChild(t, b, want, nil)
	})
}
