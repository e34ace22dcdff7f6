package sinktest

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/mbwrap/mbwrap/sinks"
)

func testReadAt(t *testing.T, s sinks.Sink) {
	data := pattern(1000)
	put(t, s, "object", data)
	o, err := s.Open(t.Context(), "object")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	cases := []struct {
		offset int64
		size   int
		want   int
		end    bool // io.EOF must be told; where a read ends exactly at the end it may be
	}{
		{0, 1, 1, false}, {0, 999, 999, false}, {999, 1, 1, false}, {0, 1000, 1000, false}, {500, 500, 500, false},
		{0, 1001, 1000, true}, {999, 2, 1, true}, {500, 4096, 500, true}, {1000, 1, 0, true}, {5000, 10, 0, true},
		{10, 0, 0, false},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%d at %d", c.size, c.offset), func(t *testing.T) {
			buf := make([]byte, c.size)
			n, err := o.ReadAt(buf, c.offset)
			if n != c.want || (err != nil && err != io.EOF) || (c.end && err != io.EOF) {
				t.Fatalf("got %d, %v, want %d and io.EOF: %v", n, err, c.want, c.end)
			}
			if n > 0 && !bytes.Equal(buf[:n], data[c.offset:][:n]) {
				t.Error("got other bytes, want those written")
			}
		})
	}
	if n, err := o.ReadAt(make([]byte, 1), -1); n != 0 || err == nil || err == io.EOF {
		t.Errorf("read at -1: got %d, %v, want 0 and an error", n, err)
	}
}

func testConcurrentReads(t *testing.T, s sinks.Sink) {
	const size, readers = 64 << 10, 8
	data := pattern(size)
	put(t, s, "object", data)
	o, err := s.Open(t.Context(), "object")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	var group sync.WaitGroup
	for r := range readers {
		group.Go(func() {
			buf := make([]byte, 1000)
			for at := r * 100; at+len(buf) <= size; at += 5000 {
				if _, err := o.ReadAt(buf, int64(at)); err != nil || !bytes.Equal(buf, data[at:at+len(buf)]) {
					t.Errorf("read at %d: got other bytes or %v, want those written", at, err)
				}
			}
		})
	}
	group.Wait()
}

func testListPrefixes(t *testing.T, s sinks.Sink) {
	all := []string{"a", "b.txt", "b/1", "b/2", "b/c/3", "bc/4", "d/e/f/5"}
	for _, name := range all {
		put(t, s, name, []byte(name))
	}
	cases := []struct {
		prefix string
		want   []string
	}{
		{"", all},
		{"a", []string{"a"}},
		{"a/", nil},
		{"b", []string{"b.txt", "b/1", "b/2", "b/c/3", "bc/4"}},
		{"b/", []string{"b/1", "b/2", "b/c/3"}},
		{"b/c", []string{"b/c/3"}},
		{"b/c/", []string{"b/c/3"}},
		{"b/1", []string{"b/1"}},
		{"b/1/", nil},
		{"d", []string{"d/e/f/5"}},
		{"d/e/f/5", []string{"d/e/f/5"}},
		{"d/e/f/5x", nil},
		{"z", nil},
		{"z/", nil},
		{"b.", []string{"b.txt"}},
	}
	for _, c := range cases {
		lists(t, s, c.prefix, c.want...)
	}
	for _, prefix := range []string{"/", "../", "a//", "./a", "a/../b", "a/.."} {
		if got, err := s.List(t.Context(), prefix); len(got) != 0 {
			t.Errorf("list %q: got %v, %v, want nothing", prefix, got, err)
		}
	}
}

// testListOrder has names that a walk through folders would bring in another order than their bytes do.
func testListOrder(t *testing.T, s sinks.Sink) {
	sorted := []string{"A/x", "a b/x", "a-/x", "a.b", "a/b", "a/b.c", "a0", "ab/x", "b/x", "é/x", "世/x"}
	for i := range sorted {
		put(t, s, sorted[(i*7)%len(sorted)], nil)
	}
	lists(t, s, "", sorted...)
}

// testManyObjects has more objects than one page of a list holds in S3.
func testManyObjects(t *testing.T, s sinks.Sink) {
	const n, workers = 1050, 16
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprintf("many/%02d/%04d", i/100, i)
	}
	work := make(chan string)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for name := range work {
				if err := store(t, s, name, []byte(name)); err != nil {
					t.Errorf("store %q: got %v, want nil", name, err)
				}
			}
		})
	}
	for _, name := range want {
		work <- name
	}
	close(work)
	group.Wait()
	lists(t, s, "", want...)
	lists(t, s, "many/03/", want[300:400]...)
	holds(t, s, want[n-1], []byte(want[n-1]))
}

// store is put for goroutines that are not the test's own.
func store(t *testing.T, s sinks.Sink, name string, data []byte) error {
	w, err := s.Create(t.Context(), name)
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Commit()
}
