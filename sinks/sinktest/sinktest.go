// Package sinktest proves that a sink keeps the promises written in package sinks. Every sink runs it, and what it checks
// no other test has to.
//
//	func TestMySink(t *testing.T) {
//		sinktest.Run(t, func(t *testing.T) sinks.Sink { return newEmptySink(t) })
//	}
package sinktest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"testing"

	"github.com/mbwrap/mbwrap/sinks"
)

// Run runs the whole conformance test as subtests. newSink returns a new, empty sink each time; it cleans up with
// t.Cleanup. What a sink does beyond Sink (Replacer, Locker, Scavenger) is tested when it has the methods.
func Run(t *testing.T, newSink func(t *testing.T) sinks.Sink) {
	cases := []struct {
		name string
		test func(*testing.T, sinks.Sink)
	}{
		{"life of an object", testLife},
		{"zero length", testZeroLength},
		{"big object", testBig},
		{"many writes of odd sizes", testOddWrites},
		{"buffer is not kept", testBufferNotKept},
		{"invisible before commit", testInvisible},
		{"abort leaves nothing", testAbort},
		{"after the end", testAfterEnd},
		{"never overwrites", testNeverOverwrites},
		{"one of two writers wins", testTwoWriters},
		{"one of many creators wins", testManyCreators},
		{"many writers at once", testManyWriters},
		{"absent", testAbsent},
		{"read at", testReadAt},
		{"concurrent reads", testConcurrentReads},
		{"odd names", testOddNames},
		{"invalid names", testInvalidNames},
		{"list prefixes", testListPrefixes},
		{"list order", testListOrder},
		{"many objects", testManyObjects},
		{"remove", testRemove},
		{"cancelled before", testCancelledBefore},
		{"cancelled in the middle", testCancelledMiddle},
		{"replace", testReplace},
		{"replace is atomic", testReplaceAtomic},
		{"lock excludes", testLock},
		{"lock contest", testLockContest},
		{"leftovers", testLeftovers},
		{"free space", testFree},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSink(t)
			c.test(t, s)
			if !t.Failed() {
				checkNoLeftovers(t, s)
			}
		})
	}
}

// put stores data under name.
func put(t *testing.T, s sinks.Sink, name string, data []byte) {
	t.Helper()
	w := create(t, s, name)
	write(t, w, data)
	if err := w.Commit(); err != nil {
		t.Fatalf("commit %q: got %v, want nil", name, err)
	}
}

func create(t *testing.T, s sinks.Sink, name string) sinks.Writer {
	t.Helper()
	w, err := s.Create(t.Context(), name)
	if err != nil {
		t.Fatalf("create %q: got %v, want nil", name, err)
	}
	t.Cleanup(func() { w.Abort() })
	return w
}

func write(t *testing.T, w io.Writer, data []byte) {
	t.Helper()
	if n, err := w.Write(data); n != len(data) || err != nil {
		t.Fatalf("write %d bytes: got %d, %v, want all, nil", len(data), n, err)
	}
}

// get reads a whole object.
func get(t *testing.T, s sinks.Sink, name string) []byte {
	t.Helper()
	o, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatalf("open %q: got %v, want nil", name, err)
	}
	data, err := io.ReadAll(io.NewSectionReader(o, 0, o.Size()+1))
	if err != nil {
		t.Fatalf("read %q: got %v, want nil", name, err)
	}
	if int64(len(data)) != o.Size() {
		t.Errorf("size of %q: got %d, want %d as read", name, o.Size(), len(data))
	}
	if err := o.Close(); err != nil {
		t.Errorf("close %q: got %v, want nil", name, err)
	}
	return data
}

// holds checks that name has exactly these bytes.
func holds(t *testing.T, s sinks.Sink, name string, want []byte) {
	t.Helper()
	if got := get(t, s, name); !bytes.Equal(got, want) {
		t.Errorf("object %q: got %d bytes %.40q, want %d bytes %.40q", name, len(got), got, len(want), want)
	}
}

// names lists the names with prefix.
func names(t *testing.T, s sinks.Sink, prefix string) []string {
	t.Helper()
	infos, err := s.List(t.Context(), prefix)
	if err != nil {
		t.Fatalf("list %q: got %v, want nil", prefix, err)
	}
	list := []string{}
	for _, i := range infos {
		list = append(list, i.Name)
	}
	return list
}

// lists checks that the names with prefix are exactly want, in this order.
func lists(t *testing.T, s sinks.Sink, prefix string, want ...string) {
	t.Helper()
	if got := names(t, s, prefix); !slices.Equal(got, want) {
		t.Errorf("list %q: got %q, want %q", prefix, got, want)
	}
}

// missing checks that name can be neither opened nor listed.
func missing(t *testing.T, s sinks.Sink, name string) {
	t.Helper()
	o, err := s.Open(t.Context(), name)
	if err == nil {
		o.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open %q: got %v, want fs.ErrNotExist", name, err)
	}
	if got := names(t, s, ""); slices.Contains(got, name) {
		t.Errorf("list: got %q, want it without %q", got, name)
	}
}

func wantError(t *testing.T, doing string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", doing, got, want)
	}
}

// checkNoLeftovers checks, where the sink can tell, that the test left nothing behind but objects.
func checkNoLeftovers(t *testing.T, s sinks.Sink) {
	t.Helper()
	scavenger, ok := s.(sinks.Scavenger)
	if !ok {
		return
	}
	if got, err := scavenger.Leftovers(context.WithoutCancel(t.Context()), ""); err != nil || len(got) != 0 {
		t.Errorf("leftovers at the end: got %v, %v, want none, nil", got, err)
	}
}

// pattern returns n bytes that differ from place to place.
func pattern(n int) []byte {
	data := make([]byte, n)
	x := uint32(2463534242)
	for i := range data {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		data[i] = byte(x)
	}
	return data
}
