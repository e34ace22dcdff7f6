package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/mbwrap/mbwrap/codec"
)

// PackOptions says how Pack cuts, compresses and stores a stream.
type PackOptions struct {
	Codec      *codec.Codec
	Level      int   // of the codec
	Jobs       int   // compression workers; below 1 stands for one a core
	BlockSize  int   // raw bytes of a block; 0 stands for DefaultBlockSize
	VolumeSize int64 // stored bytes after which a new volume begins, at a block's border; 0: one volume

	// Check sees every raw byte in order, before it is compressed, in pieces of a block; nil checks nothing. Its error
	// fails the Pack.
	Check io.Writer
	// OnBlock is told of every block after it was written, in order, on one goroutine; nil is fine.
	OnBlock func(Block)
	// Interrupt is called once when the Pack fails or is cancelled after it has begun to read, and never else. It must
	// make a blocked Read of the source return. nil is fine for a source that never blocks.
	Interrupt func()
	// Meter receives the counts; nil is fine.
	Meter *Meter
}

// PackResult sums a finished Pack up.
type PackResult struct {
	RawSize    int64 // bytes of raw stream
	StoredSize int64 // bytes written to all volumes
	Blocks     int64
	Volumes    int
}

// packSlot is one block on its way. It belongs to whoever received it last: reader, worker, writer, free list.
type packSlot struct {
	buffer []byte // of BlockSize bytes
	raw    []byte // the filled part of buffer
	frame  []byte // the compressed block; raw itself with the codec "none"
	spare  []byte // the memory that frame is made in, kept from block to block
	crc    uint32
	err    error
	done   chan struct{} // one token when frame, crc and err are set
}

type packer struct {
	options PackOptions
	meter   *Meter
	src     io.Reader
	dst     Volumes

	free  chan *packSlot // empty slots; its capacity is the memory limit
	work  chan *packSlot // from the reader to the workers
	order chan *packSlot // from the reader to the writer, in stream order

	result PackResult
	volume Volume // the open one, or nil
	stored int64  // bytes in it
}

// Pack reads src to its end, and writes it to dst as compressed blocks. It returns when every goroutine has ended. An
// empty source opens no volume: whether that is an error is for Check to say. After an error the volumes hold a
// part of the stream and must be thrown away by the caller; the one that was open has been aborted.
func Pack(ctx context.Context, dst Volumes, src io.Reader, o PackOptions) (PackResult, error) {
	if err := o.complete(); err != nil {
		return PackResult{}, err
	}
	slots := 2*o.Jobs + 2
	p := &packer{
		options: o, meter: o.Meter, src: src, dst: dst,
		free: make(chan *packSlot, slots), work: make(chan *packSlot, slots), order: make(chan *packSlot, slots),
	}
	for range slots {
		p.free <- &packSlot{done: make(chan struct{}, 1)}
	}
	compressors, err := p.compressors()
	if err != nil {
		return PackResult{}, err
	}
	tasks := []func(context.Context) error{p.read, p.write}
	for _, c := range compressors {
		tasks = append(tasks, func(ctx context.Context) error { return p.compress(ctx, c) })
	}
	err = together(ctx, o.Interrupt, tasks...)
	if err != nil {
		if left := p.abortVolume(); left != nil {
			err = fmt.Errorf("%w; then: %w", err, left)
		}
		return p.result, err
	}
	start := time.Now()
	err = p.closeVolume()
	clock(&p.meter.sink, start)
	if err != nil && o.Interrupt != nil {
		o.Interrupt()
	}
	return p.result, err
}

// complete fills the defaults in and refuses what can't be.
func (o *PackOptions) complete() error {
	if o.BlockSize == 0 {
		o.BlockSize = DefaultBlockSize
	}
	if o.BlockSize < MinBlockSize || o.BlockSize > MaxBlockSize {
		return fmt.Errorf("block size %d is not between %d and %d", o.BlockSize, MinBlockSize, MaxBlockSize)
	}
	if o.VolumeSize < 0 {
		return fmt.Errorf("volume size %d is negative", o.VolumeSize)
	}
	if o.Codec == nil {
		return errors.New("no codec given")
	}
	if o.Meter == nil {
		o.Meter = new(Meter)
	}
	o.Jobs = workers(o.Jobs)
	return nil
}

// compressors returns one compressor a worker. The workers close them.
func (p *packer) compressors() ([]codec.Compressor, error) {
	var all []codec.Compressor
	for range p.options.Jobs {
		c, err := p.options.Codec.NewCompressor(codec.CompressorOptions{
			Level: p.options.Level, BlockSize: p.options.BlockSize,
		})
		if err != nil {
			for _, c := range all {
				c.Close()
			}
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// read cuts the source into blocks, shows each to the checker and hands it on.
func (p *packer) read(ctx context.Context) error {
	defer close(p.work)
	defer close(p.order)
	for {
		start := time.Now()
		var slot *packSlot
		select {
		case slot = <-p.free: // given back by write
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		start = clock(&p.meter.room, start)
		if slot.buffer == nil {
			slot.buffer = make([]byte, p.options.BlockSize)
		}
		n, err := fill(p.src, slot.buffer, &p.meter.Raw)
		slot.raw = slot.buffer[:n]
		start = clock(&p.meter.source, start)
		if n > 0 && p.options.Check != nil {
			_, fault := p.options.Check.Write(slot.raw)
			clock(&p.meter.check, start)
			// A source that failed is why the stream looks wrong.
			if fault != nil && (err == nil || err == io.EOF) {
				return fault
			}
		}
		if n > 0 {
			p.work <- slot  // never blocks: there are as many places as slots
			p.order <- slot // likewise
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// fill reads from src until buffer is full or src has an error, and counts the bytes as they come so that progress
// moves within a block. Unlike io.ReadFull it returns src's own error, io.EOF included, together with the bytes before.
func fill(src io.Reader, buffer []byte, count *atomic.Int64) (n int, err error) {
	for empty := 0; n < len(buffer) && err == nil; {
		var read int
		read, err = src.Read(buffer[n:])
		n += read
		count.Add(int64(read))
		if read > 0 {
			empty = 0
		} else if empty++; empty == 100 && err == nil {
			err = io.ErrNoProgress
		}
	}
	return n, err
}

// compress turns raw blocks into frames until there are no more.
func (p *packer) compress(ctx context.Context, c codec.Compressor) error {
	defer c.Close()
	identity := p.options.Codec.Name() == "none"
	for slot := range p.work {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		start := time.Now()
		slot.crc = Checksum(slot.raw)
		slot.err = nil
		if identity {
			slot.frame = slot.raw
		} else {
			slot.spare, slot.err = c.Append(slot.spare[:0], slot.raw)
			slot.frame = slot.spare
		}
		clock(&p.meter.work, start)
		slot.done <- struct{}{} // never blocks: one token a round
	}
	return nil
}

// write stores the frames in stream order.
func (p *packer) write(ctx context.Context) error {
	for slot := range p.order {
		select {
		case <-slot.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if slot.err != nil {
			return fmt.Errorf("compress block %d at offset %d: %w", p.result.Blocks, p.result.RawSize, slot.err)
		}
		start := time.Now()
		if err := p.store(slot); err != nil {
			return err
		}
		clock(&p.meter.sink, start)
		p.free <- slot // never blocks: there are as many places as slots
	}
	return nil
}

// store writes one frame to the volume it belongs to.
func (p *packer) store(slot *packSlot) error {
	size := int64(len(slot.frame))
	limit := p.options.VolumeSize
	if p.volume != nil && limit > 0 && p.stored+size > limit {
		if err := p.closeVolume(); err != nil {
			return err
		}
	}
	if p.volume == nil {
		v, err := p.dst.Open(p.result.Volumes + 1)
		if err != nil {
			return err
		}
		p.volume, p.stored = v, 0
		p.result.Volumes++
	}
	n, err := p.volume.Write(slot.frame)
	if err == nil && n != len(slot.frame) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return err
	}
	block := Block{
		Raw: p.result.RawSize, RawSize: int64(len(slot.raw)),
		Volume: p.result.Volumes, Stored: p.stored, StoredSize: size, CRC: slot.crc,
	}
	p.stored += size
	p.result.RawSize += block.RawSize
	p.result.StoredSize += size
	p.result.Blocks++
	p.meter.Stored.Add(size)
	if p.options.OnBlock != nil {
		p.options.OnBlock(block)
	}
	return nil
}

// closeVolume ends the open volume, if there is one.
func (p *packer) closeVolume() error {
	if p.volume == nil {
		return nil
	}
	v := p.volume
	p.volume = nil
	return v.Close()
}

// abortVolume gives the open volume up, if there is one.
func (p *packer) abortVolume() error {
	if p.volume == nil {
		return nil
	}
	v := p.volume
	p.volume = nil
	return v.Abort()
}
