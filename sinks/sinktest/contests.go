package sinktest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mbwrap/mbwrap/sinks"
)

func testNeverOverwrites(t *testing.T, s sinks.Sink) {
	put(t, s, "a/taken", []byte("first"))
	err := store(t, s, "a/taken", []byte("second"))
	wantError(t, "create or commit of a taken name", err, fs.ErrExist)
	holds(t, s, "a/taken", []byte("first"))
	lists(t, s, "", "a/taken")
}

func testTwoWriters(t *testing.T, s sinks.Sink) {
	first, second := create(t, s, "contested"), create(t, s, "contested")
	write(t, second, []byte("second"))
	write(t, first, []byte("first"))
	if err := second.Commit(); err != nil {
		t.Fatalf("commit: got %v, want nil", err)
	}
	for range 2 {
		wantError(t, "commit of the later", first.Commit(), fs.ErrExist)
	}
	if err := first.Abort(); err != nil {
		t.Errorf("abort of the later: got %v, want nil", err)
	}
	holds(t, s, "contested", []byte("second"))
}

func testManyCreators(t *testing.T, s sinks.Sink) {
	const writers, rounds = 8, 5
	for round := range rounds {
		name := fmt.Sprintf("round/%d/object", round)
		var winner atomic.Int32
		winner.Store(-1)
		var group sync.WaitGroup
		for i := range writers {
			group.Go(func() {
				err := store(t, s, name, bytes.Repeat([]byte{byte(i)}, 10_000+i))
				switch {
				case err == nil && !winner.CompareAndSwap(-1, int32(i)):
					t.Errorf("round %d: got two winners, %d and %d", round, winner.Load(), i)
				case err != nil && !errors.Is(err, fs.ErrExist):
					t.Errorf("round %d writer %d: got %v, want nil or fs.ErrExist", round, i, err)
				}
			})
		}
		group.Wait()
		if winner.Load() < 0 {
			t.Fatalf("round %d: got no winner, want one", round)
		}
		i := int(winner.Load())
		holds(t, s, name, bytes.Repeat([]byte{byte(i)}, 10_000+i))
	}
}

// testManyWriters has writers of different names share folders that come and go, some giving up.
func testManyWriters(t *testing.T, s sinks.Sink) {
	const workers, rounds = 8, 10
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			for round := range rounds {
				name := fmt.Sprintf("shared/%d/%d", round%2, i)
				if err := turn(t, s, name, (i+round)%3 == 0); err != nil {
					t.Errorf("%s round %d: got %v, want nil", name, round, err)
				}
			}
		})
	}
	group.Wait()
	lists(t, s, "")
}

// turn stores and removes an object, or begins one and gives it up.
func turn(t *testing.T, s sinks.Sink, name string, giveUp bool) error {
	if !giveUp {
		return errors.Join(store(t, s, name, []byte(name)), s.Remove(t.Context(), name))
	}
	w, err := s.Create(t.Context(), name)
	if err != nil {
		return err
	}
	_, err = w.Write([]byte(name))
	return errors.Join(err, w.Abort())
}

func testReplace(t *testing.T, s sinks.Sink) {
	r, ok := s.(sinks.Replacer)
	if !ok {
		t.Skip("not a Replacer")
	}
	for _, data := range []string{"first", "the second is longer", "", "x"} {
		if err := r.Replace(t.Context(), "a/record", []byte(data)); err != nil {
			t.Fatalf("replace: got %v, want nil", err)
		}
		holds(t, s, "a/record", []byte(data))
		lists(t, s, "", "a/record")
	}
	put(t, s, "a/object", []byte("once"))
	if err := r.Replace(t.Context(), "a/object", []byte("twice")); err != nil {
		t.Fatalf("replace: got %v, want nil", err)
	}
	holds(t, s, "a/object", []byte("twice"))
}

func testReplaceAtomic(t *testing.T, s sinks.Sink) {
	r, ok := s.(sinks.Replacer)
	if !ok {
		t.Skip("not a Replacer")
	}
	const rounds, size = 50, 20_000
	content := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, size) }
	put(t, s, "record", content(0))
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		defer close(done)
		for i := range rounds {
			if err := r.Replace(t.Context(), "record", content(i)); err != nil {
				t.Errorf("replace: got %v, want nil", err)
			}
		}
	})
	for reading := true; reading && !t.Failed(); {
		select {
		case <-done:
			reading = false
		default:
		}
		got := get(t, s, "record")
		if len(got) != size || !bytes.Equal(got, content(int(got[0]))) {
			t.Errorf("got %d bytes of more than one version, want %d of one", len(got), size)
		}
	}
	group.Wait()
}
