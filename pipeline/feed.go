package pipeline

import (
	"context"
	"io"
	"time"
)

// FeedOptions says how Feed reads.
type FeedOptions struct {
	BlockSize int    // bytes of a piece; 0 stands for 1 MiB
	Interrupt func() // called once on failure or cancel; must make a blocked Read of the source return
	Meter     *Meter // receives the counts; nil is fine
}

const (
	feedSize  = 1 << 20
	feedSlots = 8
)

// Feed reads a raw stream that can only be read from front to back and hands it to emit in pooled pieces, as Unpack
// does: reading and emitting run side by side. emit owns one reference to each piece and must release it.
func Feed(ctx context.Context, src io.Reader, o FeedOptions, emit func(*Raw) error) error {
	if o.BlockSize < 1 {
		o.BlockSize = feedSize
	}
	if o.Meter == nil {
		o.Meter = new(Meter)
	}
	f := &feeder{options: o, free: newSlots(feedSlots), order: make(chan *unpackSlot, feedSlots)}
	return together(ctx, o.Interrupt,
		func(ctx context.Context) error { return f.read(ctx, src) },
		func(ctx context.Context) error { return f.emit(ctx, emit) },
	)
}

type feeder struct {
	options FeedOptions
	free    chan *unpackSlot
	order   chan *unpackSlot
}

// read fills slots from src.
func (f *feeder) read(ctx context.Context, src io.Reader) error {
	defer close(f.order)
	for offset := int64(0); ; {
		var slot *unpackSlot
		select {
		case slot = <-f.free: // given back by Raw.Release
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if slot.buffer == nil {
			slot.buffer = make([]byte, f.options.BlockSize)
		}
		start := time.Now()
		n, err := fill(src, slot.buffer, &f.options.Meter.Raw)
		clock(&f.options.Meter.source, start)
		if n > 0 {
			slot.raw.Data, slot.raw.Offset = slot.buffer[:n], offset
			offset += int64(n)
			f.order <- slot // never blocks: there are as many places as slots
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// emit hands the pieces on in order.
func (f *feeder) emit(ctx context.Context, emit func(*Raw) error) error {
	for slot := range f.order {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		slot.raw.references.Store(1)
		start := time.Now()
		if err := emit(&slot.raw); err != nil {
			return err
		}
		clock(&f.options.Meter.sink, start)
	}
	return nil
}
