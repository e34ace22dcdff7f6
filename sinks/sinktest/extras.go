package sinktest

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mbwrap/mbwrap/sinks"
)

func locker(t *testing.T, s sinks.Sink) sinks.Locker {
	t.Helper()
	l, ok := s.(sinks.Locker)
	if !ok {
		t.Skip("not a Locker")
	}
	return l
}

func testLock(t *testing.T, s sinks.Sink) {
	l := locker(t, s)
	for _, owner := range []string{`{"pid":1,"host":"here"}`, "x", ""} { // shorter each time: nothing of the last may shine through
		lock, err := l.Lock(t.Context(), "server/run", []byte(owner))
		if err != nil {
			t.Fatalf("lock: got %v, want nil", err)
		}
		lists(t, s, "")
		_, err = l.Lock(t.Context(), "server/run", []byte("other"))
		var locked *sinks.LockedError
		if !errors.As(err, &locked) || string(locked.Owner) != owner || locked.Name != "server/run" {
			t.Errorf("lock again: got %v, want a LockedError with owner %q", err, owner)
		}
		other, err := l.Lock(t.Context(), "server/other", nil)
		if err != nil {
			t.Fatalf("lock of another name: got %v, want nil", err)
		}
		put(t, s, "server/run", []byte("an object is no lock"))
		if err := s.Remove(t.Context(), "server/run"); err != nil {
			t.Errorf("remove: got %v, want nil", err)
		}
		for range 2 {
			if err := errors.Join(lock.Unlock(), other.Unlock()); err != nil {
				t.Errorf("unlock: got %v, want nil", err)
			}
		}
	}
	lists(t, s, "")
}

// testLockContest lets many take turns; a counter tells whether two were in at once.
func testLockContest(t *testing.T, s sinks.Sink) {
	l := locker(t, s)
	const workers, rounds = 6, 20
	var inside, total atomic.Int32
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for range rounds {
				lock, err := wait(t.Context(), l)
				if err != nil {
					t.Errorf("lock: got %v, want nil", err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("got %d holders at once, want 1", n)
				}
				runtime.Gosched()
				total.Add(1)
				inside.Add(-1)
				if err := lock.Unlock(); err != nil {
					t.Errorf("unlock: got %v, want nil", err)
				}
			}
		})
	}
	group.Wait()
	if total.Load() != workers*rounds {
		t.Errorf("got %d turns, want %d", total.Load(), workers*rounds)
	}
}

// wait tries until the lock is free.
func wait(ctx context.Context, l sinks.Locker) (sinks.Lock, error) {
	for {
		lock, err := l.Lock(ctx, "contest/lock", []byte("someone"))
		var locked *sinks.LockedError
		if !errors.As(err, &locked) {
			return lock, err
		}
		runtime.Gosched()
	}
}

// testLeftovers knows only what this process can show: the living are left alone, and names are checked. That those of
// the dead are found needs a dead process and is tested with the sink.
func testLeftovers(t *testing.T, s sinks.Sink) {
	scavenger, ok := s.(sinks.Scavenger)
	if !ok {
		t.Skip("not a Scavenger")
	}
	w := create(t, s, "a/living")
	write(t, w, []byte("x"))
	checkNoLeftovers(t, s)
	put(t, s, "a/object", []byte("x"))
	for _, name := range []string{"a/object", "a/living", "a", "", ".", "../x", "/x"} {
		wantError(t, "remove leftover "+name, scavenger.RemoveLeftover(t.Context(), name), fs.ErrInvalid)
	}
	if err := w.Commit(); err != nil {
		t.Errorf("commit: got %v, want nil", err)
	}
	lists(t, s, "", "a/living", "a/object")
}

func testFree(t *testing.T, s sinks.Sink) {
	f, ok := s.(interface {
		Free(context.Context) (int64, error)
	})
	if !ok {
		t.Skip("can't tell free space")
	}
	if n, err := f.Free(t.Context()); n <= 0 || err != nil {
		t.Errorf("free: got %d, %v, want more than 0, nil", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Free(ctx)
	wantError(t, "free", err, context.Canceled)
}
