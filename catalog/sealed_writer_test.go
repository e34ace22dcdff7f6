package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/sinks/faulty"
)

// begun begins an encrypted backup and its first volume.
func begun(t *testing.T, all ...*Repository) (*Pending, *sealedWriter) {
	t.Helper()
	j := job{}.sealed(t)
	p, err := Begin(t.Context(), all, "db1", BeginOptions{Type: Full, Started: began, Codec: lookup(t, "none"), Key: j.key, Recipients: j.to})
	if err != nil {
		t.Fatal(err)
	}
	v, err := p.Volumes(t.Context()).Open(1)
	if err != nil {
		t.Fatal(err)
	}
	return p, v.(*sealedWriter)
}

// noise is data that nothing compresses.
func noise(n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(data) // never fails
	return data
}

// TestSealedSizes: whatever is written, in whatever steps, comes out again, and the object says what is stored.
func TestSealedSizes(t *testing.T) {
	const chunk = 64 << 10
	for _, size := range []int{0, 1, chunk - 1, chunk, chunk + 1, pieceSize - 1, pieceSize, pieceSize + 1, 5*pieceSize + 5} {
		for _, step := range []int{1000, chunk, pieceSize, 3*pieceSize + 7} {
			sink := newMemory()
			p, w := begun(t, repositories(t, sink)...)
			data := noise(size)
			for part := range slices.Chunk(data, step) {
				if n, err := w.Write(part); n != len(part) || err != nil {
					t.Fatalf("size %d, step %d: wrote %d of %d (%v)", size, step, n, len(part), err)
				}
			}
			if err := errors.Join(w.Close(), w.Close()); err != nil {
				t.Fatalf("size %d, step %d: %v", size, step, err)
			}
			stored := sink.objects["db1/"+beganID+"/data.0001.xbs.age"]
			if want := []Object{{"data.0001.xbs.age", int64(len(stored)), sumOf(stored)}}; !slices.Equal(p.volumes, want) {
				t.Errorf("size %d, step %d: got %+v, want %+v", size, step, p.volumes, want)
			}
			r, err := p.key.Open(bytes.NewReader(stored))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
				t.Errorf("size %d, step %d: got %d bytes (%v)", size, step, len(got), err)
			}
			if err := p.Abort(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSealedWriterKeepsItsError: after a failure nothing is taken any more, and everything ends.
func TestSealedWriterKeepsItsError(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, end := range []string{"close", "abort", "close and abort"} {
		for skip := range 3 {
			sink := newMemory()
			r := repositories(t, sink)[0]
			p, w := begun(t, through(r, faulty.New(faulty.Fault{Op: faulty.Write, Skip: skip, Err: errBoom}).Wrap(sink)))
			var err error
			for range 20 {
				if _, err = w.Write(noise(pieceSize)); err != nil {
					break
				}
			}
			if !errors.Is(err, errBoom) {
				t.Fatalf("write %d fails: got error %v, want %v", skip, err, errBoom)
			}
			if n, err := w.Write([]byte("x")); n != 0 || !errors.Is(err, errBoom) {
				t.Errorf("the next write: got %d and error %v, want %v", n, err, errBoom)
			}
			if strings.HasPrefix(end, "close") {
				if err := w.Close(); !errors.Is(err, errBoom) || !errors.Is(w.Close(), errBoom) {
					t.Errorf("close: got error %v, want %v", err, errBoom)
				}
			}
			if strings.HasSuffix(end, "abort") {
				if err := errors.Join(w.Abort(), w.Abort()); err != nil {
					t.Error(err)
				}
			}
			if err := p.Abort(t.Context()); err != nil || len(sink.names("db1")) > 0 || len(p.volumes) > 0 {
				t.Errorf("%s: left %q, %v (%v)", end, sink.names("db1"), p.volumes, err)
			}
		}
	}
}

// TestPlainWriterKeepsItsError does the same for a volume that is not encrypted.
func TestPlainWriterKeepsItsError(t *testing.T) {
	sink := newMemory()
	r := repositories(t, sink)[0]
	failing := through(r, faulty.New(faulty.Fault{Op: faulty.Write, Skip: 1, Count: 1, Err: errBoom}).Wrap(sink))
	p, err := Begin(t.Context(), []*Repository{failing}, "db1", BeginOptions{Type: Full, Started: began, Codec: lookup(t, "none")})
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.Volumes(t.Context()).Open(1)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, false} {
		if _, err := w.Write([]byte("abc")); (err == nil) != want || !want && !errors.Is(err, errBoom) {
			t.Errorf("write %d: got error %v", i, err)
		}
	}
	if err := w.Close(); !errors.Is(err, errBoom) || len(p.volumes) > 0 {
		t.Errorf("close: got error %v and volumes %v, want %v", err, p.volumes, errBoom)
	}
	if err := p.Abort(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSealFailsAtOnce: the head of the age file can't be written, or a volume not be begun.
func TestSealFailsAtOnce(t *testing.T) {
	sink := newMemory()
	r := repositories(t, sink)[0]
	j := job{stream: longStream(t)}.sealed(t)
	failing := through(r, faulty.New(faulty.Fault{Op: faulty.Create, Err: errBoom}).Wrap(sink))
	if _, err := j.run(t.Context(), "db1", failing); !errors.Is(err, errBoom) {
		t.Errorf("got error %v, want %v", err, errBoom)
	}
	if err := judge(sink, errBoom, j); err != nil {
		t.Error(err)
	}
}

// stuck is a sink whose writes wait.
type stuck struct {
	*memory
	begun   chan struct{} // gets one for each
	release chan struct{} // closed to let all go on
}

func (s *stuck) Create(ctx context.Context, name string) (sinks.Writer, error) {
	w, err := s.memory.Create(ctx, name)
	return &stuckWriter{w, s, ctx}, err
}

type stuckWriter struct {
	sinks.Writer
	sink *stuck
	ctx  context.Context
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	w.sink.begun <- struct{}{}
	select {
	case <-w.sink.release:
		return w.Writer.Write(p)
	case <-w.ctx.Done():
		return 0, context.Cause(w.ctx)
	}
}

// TestSealingOverlapsWriting: while a write waits, more is sealed. What is sealed is written in large pieces.
func TestSealingOverlapsWriting(t *testing.T) {
	sink := &stuck{memory: newMemory(), begun: make(chan struct{}, 1000), release: make(chan struct{})}
	_, err := Open(t.Context(), sink, "A")
	if !errors.Is(err, ErrNotRepository) {
		t.Fatal(err)
	}
	r := &Repository{sink, "A"}
	p, w := begun(t, r)
	if _, err := w.Write(noise(pieceSize + 128<<10)); err != nil { // hands a piece over
		t.Fatal(err)
	}
	<-sink.begun
	if _, err := w.Write(noise(pieceSize - 256<<10)); err != nil { // is taken while the first is stuck
		t.Fatal(err)
	}
	close(sink.release)
	if _, err := w.Write(noise(10 * pieceSize)); err != nil {
		t.Fatal(err)
	}
	if held := cap(w.pieces.current); held > 2*pieceSize {
		t.Errorf("a piece holds %d bytes", held)
	}
	if err := errors.Join(w.Close(), p.Abort(t.Context())); err != nil {
		t.Error(err)
	}
	if n := len(sink.begun) + 1; n > 14 {
		t.Errorf("12 pieces were written in %d writes", n)
	}
}

// TestCancelledWhileStuck: whoever cancels gets everything back.
func TestCancelledWhileStuck(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	sink := &stuck{memory: newMemory(), begun: make(chan struct{}, 1000), release: make(chan struct{})}
	j := job{}.sealed(t)
	p, err := Begin(t.Context(), []*Repository{{sink, "A"}}, "db1", BeginOptions{Type: Full, Started: began, Codec: lookup(t, "none"),
		Key: j.key, Recipients: j.to})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	v, err := p.Volumes(ctx).Open(1)
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	go func() {
		for {
			if _, err := v.Write(noise(pieceSize)); err != nil {
				written <- err
				return
			}
		}
	}()
	<-sink.begun
	cancel(errBoom)
	if err := <-written; !errors.Is(err, errBoom) {
		t.Errorf("got error %v, want %v", err, errBoom)
	}
	if err := errors.Join(v.Abort(), p.Abort(t.Context())); err != nil {
		t.Error(err)
	}
	if got := sink.names("db1"); len(got) > 0 || len(sink.locks) > 0 {
		t.Errorf("left %q and locks %v", got, sink.locks)
	}
}

// TestSameBytesEverywhere: key.age and volumes are the same in all repositories, or one could not stand in for another.
func TestSameBytesEverywhere(t *testing.T) {
	a, b := newMemory(), newMemory()
	j := job{stream: longStream(t), volumes: 4096}.sealed(t)
	j.mustRun(t, "db1", repositories(t, a, b)...)
	for _, name := range a.names("db1") {
		if !bytes.Equal(a.objects[name], b.objects[name]) {
			t.Errorf("%s differs", name)
		}
	}
	if got, want := len(b.names("db1")), len(a.names("db1")); got != want {
		t.Errorf("got %d objects, want %d", got, want)
	}
}

// TestUnusableRecipients are found before there is any data, and leave no lock behind.
func TestUnusableRecipients(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no plugin is there
	key, err := encrypt.NewKey(false)
	if err != nil {
		t.Fatal(err)
	}
	to, err := encrypt.ParseRecipients("age1nobodyhasit1dehkymmy0ysxsctnyp6xs6tnypcxcat8d9hq3ullw9")
	if err != nil {
		t.Fatal(err)
	}
	sink := newMemory()
	all := repositories(t, sink)
	before := len(sink.objects)
	o := BeginOptions{Type: Full, Started: began, Codec: lookup(t, "none"), Key: key, Recipients: to}
	if p, err := Begin(t.Context(), all, "db1", o); err == nil || p != nil {
		t.Errorf("a missing plugin: got %v and no error", p)
	}
	o.Recipients = nil
	if p, err := Begin(t.Context(), all, "db1", o); !errors.Is(err, errHalfEncrypted) || p != nil {
		t.Errorf("a key without recipients: got %v, %v, want errHalfEncrypted", p, err)
	}
	if got := len(sink.objects); got != before {
		t.Errorf("got %d objects, want the %d of before", got, before)
	}
	o.Key = nil
	p, err := Begin(t.Context(), all, "db1", o)
	if err != nil {
		t.Fatalf("the next run: %v", err)
	}
	if err := p.Abort(t.Context()); err != nil {
		t.Error(err)
	}
}

func BenchmarkSealedWriter(b *testing.B) {
	key, err := encrypt.NewKey(false)
	if err != nil {
		b.Fatal(err)
	}
	data := noise(4 << 20)
	for _, sealed := range []bool{false, true} {
		b.Run(fmt.Sprintf("sealed=%v", sealed), func(b *testing.B) {
			p := &Pending{ID: beganID, Server: "db1", key: key, members: []*member{{repository: &Repository{nowhere{}, "A"}}}}
			name := "data.0001.xbs"
			done := func(Object) {}
			var w io.WriteCloser
			if w, err = p.create(b.Context(), name, done); sealed {
				w, err = p.createSealed(b.Context(), name, done)
			}
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Write(data); err != nil {
					b.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// nowhere is a sink that keeps nothing.
type nowhere struct{ sinks.Sink }

func (nowhere) Create(context.Context, string) (sinks.Writer, error) { return nothing{}, nil }

type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }
func (nothing) Commit() error               { return nil }
func (nothing) Abort() error                { return nil }
