package faulty_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/sinks/faulty"
	"github.com/mbwrap/mbwrap/sinks/sinktest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func local(t *testing.T) *sinks.Local {
	t.Helper()
	l, err := sinks.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Without faults, and with faults that never match, the wrapper is a sink like any other.
func TestConforms(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinks.Sink {
		return faulty.New(faulty.Fault{Op: faulty.Write, Pattern: "no/such/name", Err: syscall.ENOSPC}).Wrap(local(t))
	})
}

// store writes data in pieces of 10 bytes and commits.
func store(ctx context.Context, s sinks.Sink, name string, data []byte) (int, error) {
	w, err := s.Create(ctx, name)
	if err != nil {
		return 0, err
	}
	defer w.Abort()
	total := 0
	for len(data) > 0 {
		n, err := w.Write(data[:min(10, len(data))])
		total += n
		if err != nil {
			return total, err
		}
		data = data[min(10, len(data)):]
	}
	return total, w.Commit()
}

func TestWriteFaults(t *testing.T) {
	cases := []struct {
		name  string
		fault faulty.Fault
		wrote []int // by each of three objects of 100 bytes
		err   []bool
	}{
		{"full at byte 0", faulty.Fault{Err: syscall.ENOSPC}, []int{0, 0, 0}, []bool{true, true, true}},
		{"full at byte 1", faulty.Fault{After: 1, Err: syscall.ENOSPC}, []int{1, 1, 1}, []bool{true, true, true}},
		{"full at a border", faulty.Fault{After: 50, Err: syscall.ENOSPC}, []int{50, 50, 50}, []bool{true, true, true}},
		{"full at the last byte", faulty.Fault{After: 99, Err: syscall.ENOSPC}, []int{99, 99, 99}, []bool{true, true, true}},
		{"room for all", faulty.Fault{After: 100, Err: syscall.ENOSPC}, []int{100, 100, 100}, []bool{false, false, false}},
		{"full in total", faulty.Fault{After: 155, Total: true, Err: syscall.ENOSPC}, []int{100, 55, 0}, []bool{false, true, true}},
		{"once", faulty.Fault{After: 55, Count: 1, Err: syscall.ENOSPC}, []int{55, 100, 100}, []bool{true, false, false}},
		{"the second", faulty.Fault{After: 95, Skip: 1, Count: 1, Err: syscall.ENOSPC}, []int{100, 95, 100}, []bool{false, true, false}},
		{"by name", faulty.Fault{Pattern: "o/2", Err: syscall.ENOSPC}, []int{100, 100, 0}, []bool{false, false, true}},
		{"by pattern", faulty.Fault{Pattern: "o/[01]", Err: syscall.ENOSPC}, []int{0, 0, 100}, []bool{true, true, false}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inner := local(t)
			c.fault.Op = faulty.Write
			s := faulty.New(c.fault).Wrap(inner)
			for i, name := range []string{"o/0", "o/1", "o/2"} {
				n, err := store(t.Context(), s, name, make([]byte, 100))
				if n != c.wrote[i] || errors.Is(err, syscall.ENOSPC) != c.err[i] {
					t.Errorf("object %d: got %d bytes, %v, want %d and ENOSPC: %v", i, n, err, c.wrote[i], c.err[i])
				}
				o, err := inner.Open(t.Context(), name)
				if err == nil {
					o.Close()
				}
				if errors.Is(err, fs.ErrNotExist) != c.err[i] {
					t.Errorf("object %d: got %v, want it absent: %v", i, err, c.err[i])
				}
			}
		})
	}
}

func TestShortAndFlippedWrite(t *testing.T) {
	inner := local(t)
	faults := faulty.New(
		faulty.Fault{Op: faulty.Write, Pattern: "short", After: 33, Short: true},
		faulty.Fault{Op: faulty.Write, Pattern: "flip", After: 33, Flip: 0x80},
	)
	s := faults.Wrap(inner)
	data := bytes.Repeat([]byte{1}, 100)
	if n, err := store(t.Context(), s, "short", data); n != 33 || err != nil {
		t.Errorf("short: got %d, %v, want 33, nil", n, err)
	}
	if n, err := store(t.Context(), s, "flip", data); n != 100 || err != nil {
		t.Errorf("flip: got %d, %v, want 100, nil", n, err)
	}
	want := bytes.Clone(data)
	want[33] = 0x81
	if got := read(t, inner, "flip"); !bytes.Equal(got, want) {
		t.Errorf("flip: got %x, want %x", got, want)
	}
	if !bytes.Equal(data, bytes.Repeat([]byte{1}, 100)) {
		t.Error("flip: got the caller's bytes changed, want them as they were")
	}
	if got := read(t, inner, "short"); !bytes.Equal(got, data[:33]) {
		t.Errorf("short: got %x, want 33 bytes", got)
	}
	if got := faults.Struck(); got != 7+1 {
		t.Errorf("struck: got %d, want 7 short writes and 1 flip", got)
	}
}

func read(t *testing.T, s sinks.Sink, name string) []byte {
	t.Helper()
	o, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	data, err := io.ReadAll(io.NewSectionReader(o, 0, o.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestReadFaults(t *testing.T) {
	inner := local(t)
	if _, err := store(t.Context(), inner, "object", make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name         string
		fault        faulty.Fault
		offset, size int
		n            int
		err          error
		flipped      int // place in the buffer, -1 none
	}{
		{"before", faulty.Fault{After: 50}, 0, 50, 50, nil, -1},
		{"over", faulty.Fault{After: 50}, 0, 51, 50, faulty.Err, -1},
		{"behind", faulty.Fault{After: 50, Err: syscall.EIO}, 60, 10, 0, syscall.EIO, -1},
		{"truncated", faulty.Fault{After: 50, Short: true}, 40, 20, 10, io.EOF, -1},
		{"flip", faulty.Fault{After: 50, Flip: 1}, 40, 20, 20, nil, 10},
		{"flip elsewhere", faulty.Fault{After: 70, Flip: 1}, 40, 20, 20, nil, -1},
		{"flip before", faulty.Fault{After: 30, Flip: 1}, 40, 20, 20, nil, -1},
		{"flip behind the end", faulty.Fault{After: 120, Flip: 1}, 90, 50, 10, io.EOF, -1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.fault.Op = faulty.ReadAt
			o, err := faulty.New(c.fault).Wrap(inner).Open(t.Context(), "object")
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			got := make([]byte, c.size)
			want := make([]byte, c.size)
			if c.flipped >= 0 {
				want[c.flipped] = 1
			}
			n, err := o.ReadAt(got, int64(c.offset))
			if n != c.n || !errors.Is(err, c.err) || !bytes.Equal(got, want) {
				t.Errorf("got %d, %v, %x, want %d, %v, %x", n, err, got, c.n, c.err, want)
			}
		})
	}
}

// Every operation can fail, and a failing Create, Commit or Lock leaves nothing in the sink.
func TestEveryOperationFails(t *testing.T) {
	ops := map[faulty.Op]func(context.Context, sinks.Sink) error{
		faulty.Create: func(ctx context.Context, s sinks.Sink) error { _, err := s.Create(ctx, "new"); return err },
		faulty.Commit: func(ctx context.Context, s sinks.Sink) error { _, err := store(ctx, s, "new", []byte("x")); return err },
		faulty.Abort: func(ctx context.Context, s sinks.Sink) error {
			w, err := s.Create(ctx, "new")
			if err != nil {
				return nil
			}
			return w.Abort()
		},
		faulty.Open: func(ctx context.Context, s sinks.Sink) error { _, err := s.Open(ctx, "there"); return err },
		faulty.CloseObject: func(ctx context.Context, s sinks.Sink) error {
			o, err := s.Open(ctx, "there")
			if err != nil {
				return nil
			}
			return o.Close()
		},
		faulty.List:   func(ctx context.Context, s sinks.Sink) error { _, err := s.List(ctx, "th"); return err },
		faulty.Remove: func(ctx context.Context, s sinks.Sink) error { return s.Remove(ctx, "there") },
		faulty.Replace: func(ctx context.Context, s sinks.Sink) error {
			return s.(sinks.Replacer).Replace(ctx, "there", []byte("other"))
		},
		faulty.Lock: func(ctx context.Context, s sinks.Sink) error {
			_, err := s.(sinks.Locker).Lock(ctx, "lock", nil)
			return err
		},
		faulty.Unlock: func(ctx context.Context, s sinks.Sink) error {
			k, err := s.(sinks.Locker).Lock(ctx, "lock", nil)
			if err != nil {
				return nil
			}
			return k.Unlock()
		},
		faulty.Leftovers: func(ctx context.Context, s sinks.Sink) error {
			_, err := s.(sinks.Scavenger).Leftovers(ctx, "")
			return err
		},
		faulty.RemoveLeftover: func(ctx context.Context, s sinks.Sink) error {
			return s.(sinks.Scavenger).RemoveLeftover(ctx, ".mbwrap-tmp-x")
		},
		faulty.Free: func(ctx context.Context, s sinks.Sink) error {
			_, err := s.(interface {
				Free(context.Context) (int64, error)
			}).Free(ctx)
			return err
		},
	}
	for op, do := range ops {
		t.Run(string(op), func(t *testing.T) {
			inner := local(t)
			if _, err := store(t.Context(), inner, "there", []byte("x")); err != nil {
				t.Fatal(err)
			}
			faults := faulty.New(faulty.Fault{Op: op, Err: syscall.EDQUOT, Count: 1})
			s := faults.Wrap(inner)
			if err := do(t.Context(), s); !errors.Is(err, syscall.EDQUOT) {
				t.Errorf("got %v, want EDQUOT", err)
			}
			if got := read(t, inner, "there"); string(got) != "x" {
				t.Errorf("got %q, want the object unharmed", got)
			}
			infos, err := inner.List(t.Context(), "")
			if err != nil || len(infos) != 1 {
				t.Errorf("list: got %v, %v, want one object, nil", infos, err)
			}
			if left, err := inner.Leftovers(t.Context(), ""); err != nil || len(left) != 0 {
				t.Errorf("leftovers: got %v, %v, want none, nil", left, err)
			}
			k, err := inner.Lock(t.Context(), "lock", nil)
			if err != nil {
				t.Fatalf("lock: got %v, want nil", err)
			}
			k.Unlock()
			if faults.Struck() != 1 || faults.Calls(op) != 1 {
				t.Errorf("got %d struck, %d calls, want 1, 1", faults.Struck(), faults.Calls(op))
			}
			faults.Set()
			if err := do(t.Context(), s); errors.Is(err, syscall.EDQUOT) {
				t.Errorf("after Set(): got %v, want no injected fault", err)
			}
		})
	}
}

// Late faults lose the answer, not the work.
func TestLate(t *testing.T) {
	inner := local(t)
	s := faulty.New(faulty.Fault{Op: faulty.Commit, Late: true}).Wrap(inner)
	if _, err := store(t.Context(), s, "object", []byte("x")); !errors.Is(err, faulty.Err) {
		t.Errorf("commit: got %v, want faulty.Err", err)
	}
	if got := read(t, inner, "object"); string(got) != "x" {
		t.Errorf("got %q, want the object committed", got)
	}
	s = faulty.New(
		faulty.Fault{Op: faulty.Create, Late: true},
		faulty.Fault{Op: faulty.Open, Late: true},
		faulty.Fault{Op: faulty.Lock, Late: true},
	).Wrap(inner)
	_, err := s.Create(t.Context(), "new")
	_, err2 := s.Open(t.Context(), "object")
	_, err3 := s.(sinks.Locker).Lock(t.Context(), "lock", nil)
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, faulty.Err) {
			t.Errorf("got %v, want faulty.Err", err)
		}
	}
	if k, err := inner.Lock(t.Context(), "lock", nil); err != nil {
		t.Errorf("lock: got %v, want nil: nobody holds it", err)
	} else {
		k.Unlock()
	}
}

func TestDelayAndBlock(t *testing.T) {
	inner := local(t)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		faults := faulty.New(
			faulty.Fault{Op: faulty.Open, Delay: time.Hour},
			faulty.Fault{Op: faulty.List, Block: release},
			faulty.Fault{Op: faulty.List, Err: syscall.EIO}, // has its turn after the wait
			faulty.Fault{Op: faulty.Write, Block: make(chan struct{})},
		)
		s := faults.Wrap(inner)
		start := time.Now()
		if _, err := s.Open(t.Context(), "absent"); !errors.Is(err, fs.ErrNotExist) || time.Since(start) != time.Hour {
			t.Errorf("open: got %v after %v, want fs.ErrNotExist after 1h", err, time.Since(start))
		}
		done := make(chan error)
		go func() {
			_, err := s.List(t.Context(), "")
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("list: got %v before the release, want it blocked", err)
		default:
		}
		close(release)
		if err := <-done; !errors.Is(err, syscall.EIO) {
			t.Errorf("list: got %v, want EIO", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := store(ctx, s, "stuck", []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("write: got %v, want the context's error", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.Open(ctx, "absent"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("open: got %v, want the context's error", err)
		}
	})
}

// bare hides what a sink can do beyond Sink.
type bare struct{ sinks.Sink }

func TestKeepsOptionalInterfaces(t *testing.T) {
	l := local(t)
	type free = interface {
		Free(context.Context) (int64, error)
	}
	inners := map[string]sinks.Sink{
		"all": l, "none": bare{l},
		"replacer": struct {
			bare
			sinks.Replacer
		}{bare{l}, l},
		"locker": struct {
			bare
			sinks.Locker
		}{bare{l}, l},
		"scavenger and free": struct {
			bare
			sinks.Scavenger
			free
		}{bare{l}, l, l},
		"locker and free": struct {
			bare
			sinks.Locker
			free
		}{bare{l}, l, l},
		"replacer and scavenger": struct {
			bare
			sinks.Replacer
			sinks.Scavenger
		}{bare{l}, l, l},
	}
	for name, inner := range inners {
		wrapped := faulty.New().Wrap(inner)
		if got, want := abilities(wrapped), abilities(inner); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// abilities tells which optional interfaces s has.
func abilities(s sinks.Sink) [4]bool {
	_, r := s.(sinks.Replacer)
	_, l := s.(sinks.Locker)
	_, v := s.(sinks.Scavenger)
	_, f := s.(interface {
		Free(context.Context) (int64, error)
	})
	return [4]bool{r, l, v, f}
}

func TestBadPatternPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("got no panic, want one for a bad pattern: it would never match")
		}
	}()
	faulty.New(faulty.Fault{Op: faulty.Open, Pattern: "["})
}
