package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/pipeline"
)

func TestUnpackSelected(t *testing.T) {
	p := pack(t, text(9*b+1), pipeline.PackOptions{Codec: lookup(t, "zstd"), BlockSize: b, VolumeSize: 2 * b})
	for _, pick := range [][]int{{}, {0}, {9}, {3, 4}, {0, 9}, {8, 1, 5}, {2, 2, 2}} {
		for _, jobs := range []int{1, 2, 8} {
			var want []byte
			var blocks []pipeline.Block
			for _, i := range pick {
				block := p.blocks[i]
				blocks = append(blocks, block)
				want = append(want, p.raw[block.Raw:block.Raw+block.RawSize]...)
			}
			var meter pipeline.Meter
			o := p.options()
			o.Jobs, o.Blocks, o.Meter = jobs, slices.Values(blocks), &meter
			i := 0
			var got []byte
			err := pipeline.Unpack(t.Context(), o, func(r *pipeline.Raw) error {
				defer r.Release()
				if r.Offset != blocks[i].Raw {
					t.Errorf("blocks %v, number %d: got offset %d, want %d", pick, i, r.Offset, blocks[i].Raw)
				}
				i++
				got = append(got, r.Data...)
				return nil
			})
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("blocks %v with %d workers: got %d bytes (%v), want %d", pick, jobs, len(got), err, len(want))
			}
			if meter.Raw.Load() != int64(len(want)) {
				t.Errorf("blocks %v: the meter says %d raw bytes, want %d", pick, meter.Raw.Load(), len(want))
			}
		}
	}
}

// TestDamagedBlock damages each block in turn. The blocks before it must come out, and the error must name it.
func TestDamagedBlock(t *testing.T) {
	for _, name := range codec.Names() {
		p := pack(t, text(7*b+100), pipeline.PackOptions{Codec: lookup(t, name), BlockSize: b, VolumeSize: 3 * b})
		for i, block := range p.blocks {
			for _, at := range []int64{0, block.StoredSize / 2, block.StoredSize - 1} {
				for _, jobs := range []int{1, 8} {
					t.Run(fmt.Sprintf("%s/block %d/byte %d/%d workers", name, i, at, jobs), func(t *testing.T) {
						defer goleak.VerifyNone(t)
						stored := p.volumes[block.Volume-1].Bytes()
						stored[block.Stored+at] ^= 0x10
						defer func() { stored[block.Stored+at] ^= 0x10 }()
						o := p.options()
						o.Jobs = jobs
						got, err := collect(t.Context(), o)
						checkBlockError(t, err, block)
						if !bytes.Equal(got, p.raw[:block.Raw]) {
							t.Errorf("%d bytes came out, want the %d before the damage", len(got), block.Raw)
						}
					})
				}
			}
		}
	}
}

func checkBlockError(t *testing.T, err error, want pipeline.Block) {
	t.Helper()
	var at *pipeline.BlockError
	if !errors.Is(err, pipeline.ErrBlock) || !errors.As(err, &at) {
		t.Fatalf("got error %v, want a *BlockError for damage", err)
	}
	if at.Block != want {
		t.Errorf("the error is about block %+v, want %+v", at.Block, want)
	}
}

// TestFlippedBits flips each bit of a small volume. Wrong data never comes out. A few bits of zstd and gzip frames mean
// nothing to a decoder (padding, hints): only the SHA-256 of the stored bytes finds those.
func TestFlippedBits(t *testing.T) {
	for _, name := range codec.Names() {
		p := pack(t, text(100), pipeline.PackOptions{Codec: lookup(t, name), BlockSize: b})
		stored, harmless := p.volumes[0].Bytes(), 0
		for i := range 8 * len(stored) {
			stored[i/8] ^= 1 << (i % 8)
			got, err := collect(t.Context(), p.options())
			switch {
			case errors.Is(err, pipeline.ErrBlock) && len(got) == 0:
			case err == nil && bytes.Equal(got, p.raw):
				harmless++
			default:
				t.Errorf("%s, bit %d of %d: %d bytes came out with error %v", name, i, 8*len(stored), len(got), err)
			}
			stored[i/8] ^= 1 << (i % 8)
		}
		if harmless > 16 || name == "none" && harmless > 0 {
			t.Errorf("%s: %d bits of %d were not missed", name, harmless, 8*len(stored))
		}
	}
}

// TestCutVolume cuts a volume at every byte.
func TestCutVolume(t *testing.T) {
	p := pack(t, text(100), pipeline.PackOptions{Codec: lookup(t, "zstd"), BlockSize: b})
	for n := range p.volumes[0].Len() {
		o := p.options()
		o.Volume = func(int) (io.ReaderAt, error) { return bytes.NewReader(p.volumes[0].Bytes()[:n]), nil }
		_, err := collect(t.Context(), o)
		if !errors.Is(err, pipeline.ErrBlock) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: got error %v, want %v and %v", n, err, pipeline.ErrBlock, io.ErrUnexpectedEOF)
		}
	}
}

// TestLyingIndex has the index say what can't be. No memory may be taken for it.
func TestLyingIndex(t *testing.T) {
	raw := text(3 * b)
	for _, name := range codec.Names() {
		p := pack(t, raw, pipeline.PackOptions{Codec: lookup(t, name), BlockSize: b})
		good := p.blocks[1]
		for _, test := range []struct {
			name string
			lie  func(*pipeline.Block)
		}{
			{"raw size 0", func(x *pipeline.Block) { x.RawSize = 0 }},
			{"raw size negative", func(x *pipeline.Block) { x.RawSize = -1 }},
			{"raw size one less", func(x *pipeline.Block) { x.RawSize-- }},
			{"raw size one more", func(x *pipeline.Block) { x.RawSize++ }},
			{"raw size at the limit", func(x *pipeline.Block) { x.RawSize = pipeline.MaxBlockSize }},
			{"raw size above the limit", func(x *pipeline.Block) { x.RawSize = pipeline.MaxBlockSize + 1 }},
			{"raw size huge", func(x *pipeline.Block) { x.RawSize = 1<<63 - 1 }},
			{"both sizes above the limit", func(x *pipeline.Block) {
				x.RawSize, x.StoredSize = pipeline.MaxBlockSize+1, pipeline.MaxBlockSize+1
			}},
			{"stored size 0", func(x *pipeline.Block) { x.StoredSize = 0 }},
			{"stored size negative", func(x *pipeline.Block) { x.StoredSize = -1 }},
			{"stored size one less", func(x *pipeline.Block) { x.StoredSize-- }},
			{"stored size one more", func(x *pipeline.Block) { x.StoredSize++ }},
			{"stored size huge", func(x *pipeline.Block) { x.StoredSize = 1<<63 - 1 }},
			{"begins before the frame", func(x *pipeline.Block) { x.Stored-- }},
			{"begins behind the volume", func(x *pipeline.Block) { x.Stored += 1 << 40 }},
			{"wrong checksum", func(x *pipeline.Block) { x.CRC++ }},
		} {
			t.Run(name+"/"+test.name, func(t *testing.T) {
				lying := good
				test.lie(&lying)
				o := p.options()
				o.Blocks = slices.Values([]pipeline.Block{p.blocks[0], lying, p.blocks[2]})
				var got []byte
				var err error
				taken := allocated(func() { got, err = collect(t.Context(), o) })
				checkBlockError(t, err, lying)
				if !bytes.Equal(got, raw[:b]) {
					t.Errorf("%d bytes came out, want the first block", len(got))
				}
				if taken > 4<<20 {
					t.Errorf("it took %d bytes of memory", taken)
				}
			})
		}
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// sick is a volume that can't be read.
type sick struct {
	n   int
	err error
}

func (s sick) ReadAt(p []byte, _ int64) (int, error) { return min(s.n, len(p)), s.err }

// TestOnDamage leaves damaged blocks out and goes on, until it is told to stop. What is no damage still ends the Unpack.
func TestOnDamage(t *testing.T) {
	p := pack(t, text(40*b), pipeline.PackOptions{Codec: lookup(t, "zstd"), BlockSize: b, VolumeSize: 10 * b})
	damaged := []int{0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 39} // more in a row than there are slots
	for _, i := range damaged {
		if i%2 == 1 {
			p.volumes[p.blocks[i].Volume-1].Bytes()[p.blocks[i].Stored+5] ^= 0xff
		} else {
			p.blocks[i].RawSize = -1
		}
	}
	for _, stopAt := range []int{-1, 0, 5, 39} {
		var told, came []int
		o := p.options()
		o.OnDamage = func(e *pipeline.BlockError) error {
			if !errors.Is(e, pipeline.ErrBlock) {
				t.Errorf("got error %v, want %v", e, pipeline.ErrBlock)
			}
			if told = append(told, int(e.Block.Raw/b)); told[len(told)-1] == stopAt {
				return errBoom
			}
			return nil
		}
		err := pipeline.Unpack(t.Context(), o, func(r *pipeline.Raw) error {
			defer r.Release()
			came = append(came, int(r.Offset/b))
			return nil
		})
		end := len(p.blocks)
		if stopAt >= 0 {
			end = stopAt + 1
		}
		var wantTold, wantCame []int
		for i := range end {
			if slices.Contains(damaged, i) {
				wantTold = append(wantTold, i)
			} else {
				wantCame = append(wantCame, i)
			}
		}
		if (stopAt < 0) != (err == nil) || err != nil && err != errBoom || !slices.Equal(told, wantTold) || !slices.Equal(came, wantCame) {
			t.Errorf("stop at %d: got error %v, damage %v and blocks %v; want %v and %v", stopAt, err, told, came, wantTold, wantCame)
		}
	}
	o := p.options()
	o.Volume = func(int) (io.ReaderAt, error) { return sick{0, syscall.EIO}, nil }
	o.OnDamage = func(*pipeline.BlockError) error { return nil }
	if _, err := collect(t.Context(), o); !errors.Is(err, syscall.EIO) {
		t.Errorf("a volume that can't be read: got error %v, want %v", err, syscall.EIO)
	}
	goleak.VerifyNone(t)
}

// TestUnreadableVolume: not being able to look is no damage.
func TestUnreadableVolume(t *testing.T) {
	p := pack(t, text(5*b), pipeline.PackOptions{Codec: lookup(t, "zstd"), BlockSize: b, VolumeSize: b})
	for _, test := range []struct {
		name   string
		volume func(n int) (io.ReaderAt, error)
		damage bool
		place  bool // the error tells the block
	}{
		{"does not open", func(int) (io.ReaderAt, error) { return nil, errBoom }, false, false},
		{"does not read", func(int) (io.ReaderAt, error) { return sick{0, errBoom}, nil }, false, true},
		{"stops reading", func(int) (io.ReaderAt, error) { return sick{17, errBoom}, nil }, false, true},
		{"reads short without a reason", func(int) (io.ReaderAt, error) { return sick{17, nil}, nil }, true, true},
	} {
		for _, bad := range []int{1, len(p.volumes)} {
			t.Run(fmt.Sprintf("%s/volume %d", test.name, bad), func(t *testing.T) {
				defer goleak.VerifyNone(t)
				o := p.options()
				o.Volume = func(n int) (io.ReaderAt, error) {
					if n == bad {
						return test.volume(n)
					}
					return p.reader(n)
				}
				_, err := collect(t.Context(), o)
				if got := errors.Is(err, pipeline.ErrBlock); got != test.damage {
					t.Errorf("got error %v, which says damage: %v, want %v", err, got, test.damage)
				}
				if got := errors.Is(err, errBoom); got == test.damage {
					t.Errorf("got error %v, which tells the cause: %v", err, got)
				}
				var at *pipeline.BlockError
				if errors.As(err, &at) != test.place || test.place && at.Block.Volume != bad {
					t.Errorf("got error %v, want the place: %v", err, test.place)
				}
			})
		}
	}
}

func TestUnpackRefusesNoCodec(t *testing.T) {
	if _, err := collect(t.Context(), pipeline.UnpackOptions{}); err == nil {
		t.Error("got no error")
	}
}

func TestBlockErrorTellsThePlace(t *testing.T) {
	err := &pipeline.BlockError{Block: pipeline.Block{Raw: 8192, Volume: 3, Stored: 4096}, Err: errBoom}
	if got, want := err.Error(), "block at offset 4096 of volume 3 (raw offset 8192): boom"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEmitFails(t *testing.T) {
	p := pack(t, text(9*b), pipeline.PackOptions{Codec: lookup(t, "zstd"), BlockSize: b})
	for _, at := range []int64{0, 4 * b, 8 * b} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			defer goleak.VerifyNone(t)
			fail := func(r *pipeline.Raw) error {
				if r.Offset == at {
					return errBoom // without Release: what fails may drop what it holds
				}
				r.Release()
				return nil
			}
			if err := pipeline.Unpack(t.Context(), p.options(), fail); err != errBoom {
				t.Errorf("Unpack: got error %v, want %v", err, errBoom)
			}
			var interrupt counter
			o := pipeline.FeedOptions{BlockSize: b, Interrupt: interrupt.count}
			if err := pipeline.Feed(t.Context(), bytes.NewReader(p.raw), o, fail); err != errBoom {
				t.Errorf("Feed: got error %v, want %v", err, errBoom)
			}
			interrupt.want(t, 1)
		})
	}
}

// holder keeps the last few pieces and, on another goroutine, releases them when more have come. It checks that a piece
// stays as it was while it is held.
type holder struct {
	t    *testing.T
	raw  []byte
	keep int
	held chan *pipeline.Raw
	done sync.WaitGroup
	seen int
}

func newHolder(t *testing.T, raw []byte, keep int) *holder {
	h := &holder{t: t, raw: raw, keep: keep, held: make(chan *pipeline.Raw, 1)}
	h.done.Go(func() {
		var queue []*pipeline.Raw
		for r := range h.held {
			if queue = append(queue, r); len(queue) > keep {
				h.release(queue[0])
				queue = queue[1:]
			}
		}
		for _, r := range queue {
			h.release(r)
		}
	})
	return h
}

// emit hands a piece on to two holders, the queue and itself.
func (h *holder) emit(r *pipeline.Raw) error {
	r.Retain()
	h.held <- r
	r.Release()
	return nil
}

func (h *holder) release(r *pipeline.Raw) {
	if !bytes.Equal(r.Data, h.raw[r.Offset:r.Offset+int64(len(r.Data))]) {
		h.t.Errorf("the piece at %d changed while it was held", r.Offset)
	}
	h.seen += len(r.Data)
	r.Release()
}

// end lets go of everything and tells how many bytes were seen.
func (h *holder) end() int {
	close(h.held)
	h.done.Wait()
	return h.seen
}

func TestHeldPieces(t *testing.T) {
	p := pack(t, text(40*b+1), pipeline.PackOptions{Codec: lookup(t, "zstd"), BlockSize: b})
	for _, keep := range []int{0, 1, 4} { // of 6 and 8 slots
		h := newHolder(t, p.raw, keep)
		if err := pipeline.Unpack(t.Context(), p.options(), h.emit); err != nil {
			t.Fatal(err)
		}
		if got := h.end(); got != len(p.raw) { // the last pieces are released after Unpack returned
			t.Errorf("Unpack: %d bytes came out, want %d", got, len(p.raw))
		}
		h = newHolder(t, p.raw, keep)
		if err := pipeline.Feed(t.Context(), bytes.NewReader(p.raw), pipeline.FeedOptions{BlockSize: b}, h.emit); err != nil {
			t.Fatal(err)
		}
		if got := h.end(); got != len(p.raw) {
			t.Errorf("Feed: %d bytes came out, want %d", got, len(p.raw))
		}
	}
}

func TestReleaseTwicePanics(t *testing.T) {
	p := pack(t, text(b), pipeline.PackOptions{Codec: lookup(t, "zstd"), BlockSize: b})
	var kept *pipeline.Raw
	if err := pipeline.Unpack(t.Context(), p.options(), func(r *pipeline.Raw) error { kept = r; return nil }); err != nil {
		t.Fatal(err)
	}
	kept.Release()
	defer func() {
		if recover() == nil {
			t.Error("the second Release did not panic")
		}
	}()
	kept.Release()
}

// TestHolderThatNeverReleases stops the pipeline, which must still end when it is cancelled.
func TestHolderThatNeverReleases(t *testing.T) {
	p := pack(t, text(40*b), pipeline.PackOptions{Codec: lookup(t, "zstd"), BlockSize: b})
	for name, start := range map[string]func(ctx context.Context, emit func(*pipeline.Raw) error) error{
		"unpack": func(ctx context.Context, emit func(*pipeline.Raw) error) error {
			return pipeline.Unpack(ctx, p.options(), emit)
		},
		"feed": func(ctx context.Context, emit func(*pipeline.Raw) error) error {
			return pipeline.Feed(ctx, bytes.NewReader(p.raw), pipeline.FeedOptions{BlockSize: b}, emit)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				held := 0
				result := make(chan error)
				go func() {
					result <- start(ctx, func(*pipeline.Raw) error { held++; return nil })
				}()
				synctest.Wait()
				if want := map[string]int{"unpack": 2*2 + 2, "feed": 8}[name]; held != want {
					t.Errorf("%d pieces were handed out, want all %d slots and no more", held, want)
				}
				cancel(errBoom)
				if err := <-result; err != errBoom {
					t.Errorf("got error %v, want %v", err, errBoom)
				}
			})
		})
	}
}
