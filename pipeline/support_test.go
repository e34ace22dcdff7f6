package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/pipeline"
)

// b is the block size of most tests: the smallest.
const b = pipeline.MinBlockSize

var errBoom = errors.New("boom")

// lookup returns a codec of the table.
func lookup(t testing.TB, name string) *codec.Codec {
	t.Helper()
	c, err := codec.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// text returns n bytes that compress to about half, the same ones for the same n.
func text(n int) []byte {
	random := rand.New(rand.NewPCG(uint64(n), 7))
	p := make([]byte, n)
	for i := range p {
		p[i] = "0123456789abcdef"[random.IntN(16)]
	}
	return p
}

// noise returns n bytes that do not compress.
func noise(n int) []byte {
	random := rand.New(rand.NewPCG(uint64(n), 9))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(random.Uint32())
	}
	return p
}

// shelf is a pipeline.Volumes in memory that can fail in every way. Like Pack's real volumes it is used by one
// goroutine at a time.
type shelf struct {
	t       testing.TB
	volumes []*volume
	total   int // bytes written to all volumes

	openFails  int   // number of the volume that does not open
	writeFails int   // total at which Write fails, when failing is set
	failing    error // of Write
	short      bool  // Write takes one byte less and says nothing
	closeFails int   // number of the volume that does not close
	abortError error
	onWrite    func() // called in each Write
}

// volume is one volume of a shelf.
type volume struct {
	shelf  *shelf
	number int
	bytes.Buffer
	closed, aborted int
}

func (s *shelf) Open(n int) (pipeline.Volume, error) {
	if want := len(s.volumes) + 1; n != want {
		s.t.Errorf("volume %d was opened, want %d", n, want)
	}
	if n > 1 && s.volumes[n-2].closed != 1 {
		s.t.Errorf("volume %d was opened while %d was open", n, n-1)
	}
	if n == s.openFails {
		return nil, errBoom
	}
	v := &volume{shelf: s, number: n}
	s.volumes = append(s.volumes, v)
	return v, nil
}

func (v *volume) Write(p []byte) (int, error) {
	s := v.shelf
	if v.closed+v.aborted > 0 {
		s.t.Error("write to a volume that has ended")
	}
	if s.onWrite != nil {
		s.onWrite()
	}
	switch {
	case s.short:
		return v.Buffer.Write(p[:len(p)-1])
	case s.failing != nil && s.total+len(p) > s.writeFails:
		n := s.writeFails - s.total
		v.Buffer.Write(p[:n])
		return n, s.failing
	}
	s.total += len(p)
	return v.Buffer.Write(p)
}

func (v *volume) Close() error {
	v.closed++
	if v.number == v.shelf.closeFails {
		return errBoom
	}
	return nil
}

func (v *volume) Abort() error {
	v.aborted++
	return v.shelf.abortError
}

// reader is the volume as Unpack's Volume returns it.
func (s *shelf) reader(n int) (io.ReaderAt, error) {
	if n < 1 || n > len(s.volumes) {
		return nil, fmt.Errorf("no volume %d", n)
	}
	return bytes.NewReader(s.volumes[n-1].Bytes()), nil
}

// stored returns the bytes of all volumes.
func (s *shelf) stored() []byte {
	var all []byte
	for _, v := range s.volumes {
		all = append(all, v.Bytes()...)
	}
	return all
}

// ended checks that every volume was ended once: all closed, but the last aborted if aborted is set.
func (s *shelf) ended(aborted bool) {
	s.t.Helper()
	for i, v := range s.volumes {
		wantClosed, wantAborted := 1, 0
		if aborted && i == len(s.volumes)-1 {
			wantClosed, wantAborted = 0, 1
		}
		if v.closed != wantClosed || v.aborted != wantAborted {
			s.t.Errorf("volume %d of %d: closed %d times and aborted %d times, want %d and %d",
				v.number, len(s.volumes), v.closed, v.aborted, wantClosed, wantAborted)
		}
	}
}

// packed is a stream, its volumes and its blocks.
type packed struct {
	*shelf
	codec  *codec.Codec
	raw    []byte
	blocks []pipeline.Block
	result pipeline.PackResult
}

// pack packs raw with the options, whose OnBlock it takes.
func pack(t testing.TB, raw []byte, o pipeline.PackOptions) *packed {
	t.Helper()
	p := &packed{shelf: &shelf{t: t}, codec: o.Codec, raw: raw}
	o.OnBlock = func(block pipeline.Block) { p.blocks = append(p.blocks, block) }
	var err error
	p.result, err = pipeline.Pack(t.Context(), p.shelf, bytes.NewReader(raw), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// options returns the options that unpack all of p.
func (p *packed) options() pipeline.UnpackOptions {
	return pipeline.UnpackOptions{Codec: p.codec, Jobs: 2, Blocks: slices.Values(p.blocks), Volume: p.reader}
}

// collect unpacks and returns what came out.
func collect(ctx context.Context, o pipeline.UnpackOptions) ([]byte, error) {
	var out []byte
	err := pipeline.Unpack(ctx, o, func(r *pipeline.Raw) error {
		defer r.Release()
		out = append(out, r.Data...)
		return nil
	})
	return out, err
}

// counter counts calls of an Interrupt.
type counter struct{ n atomic.Int32 }

func (c *counter) count() { c.n.Add(1) }

func (c *counter) want(t testing.TB, want int32) {
	t.Helper()
	if got := c.n.Load(); got != want {
		t.Errorf("Interrupt was called %d times, want %d", got, want)
	}
}

// both is a reader that returns its last bytes together with its error, or, apart, after them.
type both struct {
	data  []byte
	err   error
	apart bool
}

func (r *both) Read(p []byte) (int, error) {
	n := copy(p, r.data)
	r.data = r.data[n:]
	if len(r.data) > 0 || r.apart && n > 0 {
		return n, nil
	}
	return n, r.err
}
