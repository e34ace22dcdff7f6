package sinktest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/sinks"
)

func testLife(t *testing.T, s sinks.Sink) {
	data := []byte("one object\x00\xff")
	put(t, s, "server/id/data.0001", data)
	holds(t, s, "server/id/data.0001", data)
	infos, err := s.List(t.Context(), "")
	if err != nil || len(infos) != 1 {
		t.Fatalf("list: got %v, %v, want one object, nil", infos, err)
	}
	if got := infos[0]; got.Name != "server/id/data.0001" || got.Size != int64(len(data)) {
		t.Errorf("list: got %+v, want name server/id/data.0001 and size %d", got, len(data))
	}
	if age := time.Since(infos[0].ModTime).Abs(); age > time.Hour {
		t.Errorf("list: got time %v, want about now", infos[0].ModTime)
	}
	if err := s.Remove(t.Context(), "server/id/data.0001"); err != nil {
		t.Errorf("remove: got %v, want nil", err)
	}
	missing(t, s, "server/id/data.0001")
	put(t, s, "server/id/data.0001", []byte("again")) // the name is free again
	holds(t, s, "server/id/data.0001", []byte("again"))
}

func testZeroLength(t *testing.T, s sinks.Sink) {
	put(t, s, "never written", nil)
	holds(t, s, "never written", nil)
	w := create(t, s, "empty writes")
	for range 3 {
		write(t, w, []byte{})
	}
	if err := w.Commit(); err != nil {
		t.Fatalf("commit: got %v, want nil", err)
	}
	holds(t, s, "empty writes", nil)
	o, err := s.Open(t.Context(), "never written")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if n, err := o.ReadAt(make([]byte, 1), 0); n != 0 || err != io.EOF {
		t.Errorf("read an empty object: got %d, %v, want 0, io.EOF", n, err)
	}
}

// testBig is larger than the parts and windows that sinks work in, and ends in the middle of one.
func testBig(t *testing.T, s sinks.Sink) {
	const pieces, tail = 104, 12345
	piece := pattern(1 << 20)
	w := create(t, s, "big")
	for i := range pieces {
		piece[0] = byte(i)
		write(t, w, piece)
	}
	write(t, w, piece[:tail])
	if err := w.Commit(); err != nil {
		t.Fatalf("commit: got %v, want nil", err)
	}
	o, err := s.Open(t.Context(), "big")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if want := int64(pieces<<20 + tail); o.Size() != want {
		t.Fatalf("size: got %d, want %d", o.Size(), want)
	}
	got := make([]byte, len(piece))
	for i := range pieces {
		piece[0] = byte(i)
		if _, err := o.ReadAt(got, int64(i)<<20); err != nil || !bytes.Equal(got, piece) {
			t.Fatalf("MiB %d: got other bytes or error %v, want those written", i, err)
		}
	}
	if n, err := o.ReadAt(got, pieces<<20); n != tail || err != io.EOF || !bytes.Equal(got[:n], piece[:tail]) {
		t.Errorf("tail: got %d bytes, %v, want %d, io.EOF and those written", n, err, tail)
	}
}

func testOddWrites(t *testing.T, s sinks.Sink) {
	data := pattern(300_000)
	w := create(t, s, "odd")
	for rest, step := data, 1; len(rest) > 0; step = step*3 + 1 {
		n := min(step, len(rest))
		write(t, w, rest[:n])
		rest = rest[n:]
	}
	if err := w.Commit(); err != nil {
		t.Fatalf("commit: got %v, want nil", err)
	}
	holds(t, s, "odd", data)
}

func testBufferNotKept(t *testing.T, s sinks.Sink) {
	var want []byte
	buf := make([]byte, 70_000)
	w := create(t, s, "reused")
	for i := range 20 {
		for j := range buf {
			buf[j] = byte(i)
		}
		write(t, w, buf)
		want = append(want, buf...)
		clear(buf)
	}
	if err := w.Commit(); err != nil {
		t.Fatalf("commit: got %v, want nil", err)
	}
	holds(t, s, "reused", want)
}

func testInvisible(t *testing.T, s sinks.Sink) {
	put(t, s, "a/first", []byte("x"))
	w := create(t, s, "a/second")
	missing(t, s, "a/second")
	write(t, w, pattern(100_000))
	missing(t, s, "a/second")
	lists(t, s, "", "a/first")
	wantError(t, "remove an unfinished object", s.Remove(t.Context(), "a/second"), fs.ErrNotExist)
	if err := w.Commit(); err != nil {
		t.Fatalf("commit: got %v, want nil", err)
	}
	lists(t, s, "", "a/first", "a/second")
}

func testAbort(t *testing.T, s sinks.Sink) {
	for _, size := range []int{0, 1, 6 << 20} {
		w := create(t, s, "deep/er/object")
		write(t, w, pattern(size))
		for range 2 {
			if err := w.Abort(); err != nil {
				t.Errorf("abort after %d bytes: got %v, want nil", size, err)
			}
		}
		missing(t, s, "deep/er/object")
		checkNoLeftovers(t, s)
	}
	// What stood beside it stays, and "deep" is free to become an object.
	put(t, s, "other/object", []byte("x"))
	w := create(t, s, "other/second")
	if err := w.Abort(); err != nil {
		t.Errorf("abort: got %v, want nil", err)
	}
	holds(t, s, "other/object", []byte("x"))
	put(t, s, "deep", []byte("now an object"))
}

func testAfterEnd(t *testing.T, s sinks.Sink) {
	w := create(t, s, "committed")
	write(t, w, []byte("x"))
	for range 2 {
		if err := w.Commit(); err != nil {
			t.Errorf("commit: got %v, want nil", err)
		}
	}
	if _, err := w.Write([]byte("y")); err == nil {
		t.Error("write after commit: got nil, want an error")
	}
	if err := w.Abort(); err != nil {
		t.Errorf("abort after commit: got %v, want nil", err)
	}
	holds(t, s, "committed", []byte("x"))

	w = create(t, s, "aborted")
	if err := w.Abort(); err != nil {
		t.Errorf("abort: got %v, want nil", err)
	}
	if _, err := w.Write([]byte("y")); err == nil {
		t.Error("write after abort: got nil, want an error")
	}
	if err := w.Commit(); err == nil {
		t.Error("commit after abort: got nil, want an error")
	}
	missing(t, s, "aborted")
}

func testAbsent(t *testing.T, s sinks.Sink) {
	put(t, s, "folder/object", []byte("x"))
	for _, name := range []string{"absent", "folder", "folder/absent", "absent/absent", "folder/object/below", "folder/objec"} {
		o, err := s.Open(t.Context(), name)
		if err == nil {
			o.Close()
		}
		wantError(t, "open "+name, err, fs.ErrNotExist)
		wantError(t, "remove "+name, s.Remove(t.Context(), name), fs.ErrNotExist)
	}
	holds(t, s, "folder/object", []byte("x"))
	lists(t, s, "absent/")
	lists(t, s, "folder/object/")
}

func testRemove(t *testing.T, s sinks.Sink) {
	for _, name := range []string{"a/b/1", "a/b/2", "a/c"} {
		put(t, s, name, []byte(name))
	}
	steps := []struct {
		remove string
		left   []string
	}{
		{"a/b/2", []string{"a/b/1", "a/c"}},
		{"a/b/1", []string{"a/c"}},
		{"a/c", nil},
	}
	for _, step := range steps {
		if err := s.Remove(t.Context(), step.remove); err != nil {
			t.Errorf("remove %q: got %v, want nil", step.remove, err)
		}
		missing(t, s, step.remove)
		lists(t, s, "", step.left...)
		wantError(t, "remove twice", s.Remove(t.Context(), step.remove), fs.ErrNotExist)
	}
	put(t, s, "a", []byte("the empty folders are gone"))
}

func testCancelledBefore(t *testing.T, s sinks.Sink) {
	put(t, s, "there", []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w, err := s.Create(ctx, "new")
	if err == nil { // may be noticed later
		_, werr := w.Write([]byte("x"))
		err = errors.Join(werr, w.Commit())
		w.Abort()
	}
	wantError(t, "create", err, context.Canceled)
	o, err := s.Open(ctx, "there")
	if err == nil {
		_, err = o.ReadAt(make([]byte, 1), 0)
		o.Close()
	}
	wantError(t, "open", err, context.Canceled)
	_, err = s.List(ctx, "")
	wantError(t, "list", err, context.Canceled)
	wantError(t, "remove", s.Remove(ctx, "there"), context.Canceled)
	if r, ok := s.(sinks.Replacer); ok {
		wantError(t, "replace", r.Replace(ctx, "there", []byte("y")), context.Canceled)
	}
	if l, ok := s.(sinks.Locker); ok {
		_, err := l.Lock(ctx, "lock", nil)
		wantError(t, "lock", err, context.Canceled)
	}
	holds(t, s, "there", []byte("x"))
	missing(t, s, "new")
}

func testCancelledMiddle(t *testing.T, s sinks.Sink) {
	for _, size := range []int{10, 7 << 20} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w, err := s.Create(ctx, "half")
		if err != nil {
			t.Fatal(err)
		}
		write(t, w, pattern(size))
		cancel()
		if size > 10 { // else only Commit can notice
			_, err := w.Write(pattern(size))
			wantError(t, "write", err, context.Canceled)
		}
		wantError(t, "commit", w.Commit(), context.Canceled)
		if err := w.Abort(); err != nil {
			t.Errorf("abort: got %v, want nil", err)
		}
		missing(t, s, "half")
	}
}
