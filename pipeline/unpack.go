package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync/atomic"
	"time"

	"github.com/mbwrap/mbwrap/codec"
)

// Raw is a piece of raw stream in a pooled buffer. Whoever receives one holds one reference: it calls Release when it
// is done, or Retain first for every further holder. While references are held the buffer is not used again, so a
// holder that never releases stops the pipeline.
type Raw struct {
	Data   []byte
	Offset int64 // of Data in the raw stream

	references atomic.Int32
	slot       *unpackSlot
	free       chan<- *unpackSlot
}

// Retain adds a reference. It may be called by any goroutine that holds one.
func (r *Raw) Retain() { r.references.Add(1) }

// Release gives a reference back; with the last one the buffer goes back to the pool and Data must not be used any
// more.
func (r *Raw) Release() {
	switch n := r.references.Add(-1); {
	case n == 0:
		r.free <- r.slot // never blocks: there are as many places as slots
	case n < 0:
		panic("pipeline: internal error: a buffer was released more often than retained")
	}
}

// UnpackOptions says which blocks Unpack decodes, and how.
type UnpackOptions struct {
	Codec  *codec.Codec
	Jobs   int                              // decoding workers; below 1 stands for one a core
	Blocks iter.Seq[Block]                  // in the order in which they shall come out
	Volume func(n int) (io.ReaderAt, error) // the volume's stored bytes after any decryption; called by several goroutines
	Meter  *Meter                           // receives the counts; nil is fine
	// OnDamage, if set, is told of every damaged block, in order, on emit's goroutine. When it returns nil the block is
	// left out and the next one follows; otherwise its error ends the Unpack.
	OnDamage func(*BlockError) error
}

// ErrBlock is matched by every error that says a stored block is not what its index says: wrong size, a frame that does
// not decode, a wrong checksum.
var ErrBlock = errors.New("damaged block")

// BlockError tells which block is damaged or can't be read.
type BlockError struct {
	Block Block
	Err   error
}

func (e *BlockError) Error() string {
	return fmt.Sprintf("block at offset %d of volume %d (raw offset %d): %v",
		e.Block.Stored, e.Block.Volume, e.Block.Raw, e.Err)
}

func (e *BlockError) Unwrap() error { return e.Err }

// unpackSlot is one block on its way from the store to emit.
type unpackSlot struct {
	raw    Raw
	block  Block
	buffer []byte // the memory of raw.Data, kept from block to block
	frame  []byte // the stored bytes
	err    error
	done   chan struct{} // one token when raw.Data and err are set
}

// newSlots returns a free list of n slots.
func newSlots(n int) chan *unpackSlot {
	free := make(chan *unpackSlot, n)
	for range n {
		slot := &unpackSlot{done: make(chan struct{}, 1)}
		slot.raw.slot, slot.raw.free = slot, free
		free <- slot
	}
	return free
}

// Unpack decodes blocks on all workers and hands them to emit, one after the other in the order of o.Blocks. emit owns
// one reference to each and must release it. Every block's size and checksum is verified first; the error for a block
// that is not what it should be is a *BlockError that matches ErrBlock.
//
// The blocks before the first damaged one are always handed out. Unpack returns when all of its goroutines have ended.
// References that emit passed on to others may outlive it.
func Unpack(ctx context.Context, o UnpackOptions, emit func(*Raw) error) error {
	if o.Codec == nil {
		return errors.New("no codec given")
	}
	if o.Meter == nil {
		o.Meter = new(Meter)
	}
	jobs := workers(o.Jobs)
	slots := 2*jobs + 2
	u := &unpacker{
		options: o, meter: o.Meter,
		free: newSlots(slots), work: make(chan *unpackSlot, slots), order: make(chan *unpackSlot, slots),
	}
	tasks := []func(context.Context) error{
		u.dispatch,
		func(ctx context.Context) error { return u.emit(ctx, emit) },
	}
	for range jobs {
		tasks = append(tasks, u.decode)
	}
	return together(ctx, nil, tasks...)
}

type unpacker struct {
	options UnpackOptions
	meter   *Meter
	free    chan *unpackSlot
	work    chan *unpackSlot
	order   chan *unpackSlot
}

// dispatch gives every block a slot.
func (u *unpacker) dispatch(ctx context.Context) error {
	defer close(u.work)
	defer close(u.order)
	for block := range u.options.Blocks {
		var slot *unpackSlot
		select {
		case slot = <-u.free: // given back by Raw.Release
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		slot.block = block
		if err := u.plausible(block); err != nil {
			slot.err = &BlockError{block, err} // told in its turn, behind the blocks before it
			slot.done <- struct{}{}
			u.order <- slot
			continue
		}
		u.work <- slot  // never blocks: there are as many places as slots
		u.order <- slot // likewise
	}
	return nil
}

// plausible refuses sizes that no Pack writes, before memory is taken for them.
func (u *unpacker) plausible(b Block) error {
	if b.RawSize < 1 || b.RawSize > MaxBlockSize {
		return fmt.Errorf("%w: its raw size %d is not between 1 and %d", ErrBlock, b.RawSize, MaxBlockSize)
	}
	if limit := int64(u.options.Codec.Bound(int(b.RawSize))); b.StoredSize < 1 || b.StoredSize > limit {
		return fmt.Errorf("%w: its stored size %d is not between 1 and %d", ErrBlock, b.StoredSize, limit)
	}
	return nil
}

// decode reads and decodes blocks until there are no more.
func (u *unpacker) decode(ctx context.Context) error {
	d, err := u.options.Codec.NewDecompressor()
	if err != nil {
		return err
	}
	defer d.Close()
	for slot := range u.work {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		slot.err = u.decodeOne(d, slot)
		slot.done <- struct{}{} // never blocks: one token a round
	}
	return nil
}

// decodeOne fills slot.raw.Data.
func (u *unpacker) decodeOne(d codec.Decompressor, slot *unpackSlot) error {
	b := slot.block
	start := time.Now()
	volume, err := u.options.Volume(b.Volume)
	if err != nil {
		return err
	}
	slot.frame = grow(slot.frame, int(b.StoredSize))
	n, err := volume.ReadAt(slot.frame, b.Stored)
	clock(&u.meter.source, start)
	if n < len(slot.frame) {
		if err == nil || err == io.EOF {
			err = fmt.Errorf("%w: %w", ErrBlock, io.ErrUnexpectedEOF)
		}
		return &BlockError{b, err}
	}
	u.meter.Stored.Add(b.StoredSize)
	start = time.Now()
	defer func() { clock(&u.meter.work, start) }()
	slot.buffer, err = d.Append(slot.buffer[:0], slot.frame, int(b.RawSize))
	if err != nil {
		return &BlockError{b, fmt.Errorf("%w: %w", ErrBlock, err)}
	}
	if crc := Checksum(slot.buffer); crc != b.CRC {
		return &BlockError{b, fmt.Errorf("%w: its checksum is %08x, the index says %08x", ErrBlock, crc, b.CRC)}
	}
	slot.raw.Data, slot.raw.Offset = slot.buffer, b.Raw
	return nil
}

// emit hands the decoded blocks on in order.
func (u *unpacker) emit(ctx context.Context, emit func(*Raw) error) error {
	for slot := range u.order {
		select {
		case <-slot.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if slot.err != nil {
			if err := u.damage(slot.err); err != nil {
				return err
			}
			u.free <- slot // never blocks: there are as many places as slots
			continue
		}
		u.meter.Raw.Add(int64(len(slot.raw.Data)))
		slot.raw.references.Store(1)
		start := time.Now()
		if err := emit(&slot.raw); err != nil {
			return err
		}
		clock(&u.meter.sink, start)
	}
	return nil
}

// damage says whether a block's error ends the Unpack.
func (u *unpacker) damage(err error) error {
	var block *BlockError
	if u.options.OnDamage == nil || !errors.Is(err, ErrBlock) || !errors.As(err, &block) {
		return err
	}
	return u.options.OnDamage(block)
}

// grow returns a slice of length n, in p's memory where that is large enough. New memory has some room to spare, so that
// frames of slightly different sizes soon need none.
func grow(p []byte, n int) []byte {
	if cap(p) < n {
		return make([]byte, n, n+n/8)
	}
	return p[:n]
}
