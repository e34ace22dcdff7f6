package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/pipeline"
)

// blockReader decodes the blocks that an index names, in parallel, and goes on behind damaged ones.
type blockReader struct {
	checker *checker
	index   *catalog.Index
	volumes *catalog.StoredVolumes
	damage  *damage
	covered int64  // raw offset up to which damage has been reported
	gap     func() // told of every damage
}

// taker is who gets the decoded blocks.
type taker interface {
	take(*pipeline.Raw) error
	gap()    // the next block that is taken is not the one that follows, or there is none
	finish() // there are no more blocks
}

// readBlocks decodes blocks, which are some of those of the index. c.blocks must be set.
func (c *checker) readBlocks(ctx context.Context, index *catalog.Index, blocks iter.Seq[pipeline.Block], to taker) error {
	row, err := codec.Lookup(c.backup.Manifest.Codec)
	if err != nil {
		return err
	}
	r := &blockReader{checker: c, index: index, volumes: c.backup.StoredVolumes(ctx), damage: newDamage(index), gap: to.gap}
	r.volumes.Salvage = true // what stands in front of a broken end is read, too
	defer r.volumes.Close()  // opened for reading only
	defer r.damage.close()
	c.stored = r.volumes.Stored
	defer func() { c.stored = nil }()
	if err := r.extent(ctx); err != nil {
		return err
	}
	err = pipeline.Unpack(ctx, pipeline.UnpackOptions{
		Codec: row, Jobs: c.options.Jobs, Blocks: blocks, Meter: c.options.Meter,
		Volume:   func(n int) (io.ReaderAt, error) { return r.volume(ctx, n) },
		OnDamage: func(e *pipeline.BlockError) error { return r.damaged(ctx, e) },
	}, to.take)
	c.lostVersion = r.damage.lost
	if err == nil {
		to.finish()
	}
	return err
}

// volume returns a volume of which whatever can't be read is damage.
func (r *blockReader) volume(ctx context.Context, n int) (io.ReaderAt, error) {
	volume, err := r.volumes.At(n)
	if err == nil {
		return softReader{ctx, volume}, nil
	}
	if ctx.Err() != nil || outside(err) {
		return nil, err
	}
	return closedReader{err}, nil
}

// softReader turns errors of reading into damage: to whoever needs the data back a bad disk and a wrong byte are the same.
type softReader struct {
	ctx context.Context
	r   io.ReaderAt
}

func (s softReader) ReadAt(p []byte, at int64) (int, error) {
	n, err := s.r.ReadAt(p, at)
	if err == nil || err == io.EOF || s.ctx.Err() != nil || outside(err) {
		return n, err
	}
	return n, fmt.Errorf("%w: %w", pipeline.ErrBlock, err)
}

// closedReader stands for a volume that can't be opened: every block in it is damaged.
type closedReader struct{ err error }

func (c closedReader) ReadAt([]byte, int64) (int, error) {
	return 0, fmt.Errorf("%w: %w", pipeline.ErrBlock, c.err)
}

// extent compares where the index's blocks end in each volume with the volumes' sizes.
func (r *blockReader) extent(ctx context.Context) error {
	m := r.checker.backup.Manifest
	ends := make([]int64, len(m.Volumes)+1)
	for b := range r.index.AllBlocks() {
		if b.Volume < len(ends) { // catalog.Backup.Index has compared the numbers of volumes
			ends[b.Volume] = b.Stored + b.StoredSize
		}
		r.checker.report.Blocks++
	}
	for i, v := range m.Volumes {
		size := v.Size
		if m.Encrypted {
			if size = r.checker.plainSize(ctx, i+1, v.Size); size < 0 {
				continue // it can't be opened: told when its first block is read
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if ends[i+1] != size {
			r.checker.problem(whole(m.Index.Name, fmt.Sprintf("its blocks fill %d bytes of %s, which has %d", ends[i+1], v.Name, size)))
		}
	}
	return nil
}

// plainSize returns the bytes of plaintext in volume n, of which stored bytes are stored when it is whole; -1 if it can't
// be opened. It opens the volume on its own: there may be more volumes than descriptors.
func (c *checker) plainSize(ctx context.Context, n int, stored int64) int64 {
	volumes := c.backup.StoredVolumes(ctx)
	volumes.Salvage = true
	defer volumes.Close() // opened for reading only
	header := volumes.Stored(n, 0)
	if header < 0 || header > stored {
		return -1
	}
	const sealedChunk = ageChunk + 16
	chunks := (stored - header + sealedChunk - 1) / sealedChunk
	return stored - header - 16*chunks
}

// damaged reports a damaged block and what it hits.
func (r *blockReader) damaged(ctx context.Context, e *pipeline.BlockError) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.gap()
	if e.Block.Raw < r.covered {
		return nil // told with the first block of its volume
	}
	if _, err := r.volumes.At(e.Block.Volume); err != nil {
		r.volumeLost(e.Block, err)
		return nil
	}
	r.blockLost(e)
	return nil
}

// volumeLost reports a volume that can't be opened, from its first block that was to be read.
func (r *blockReader) volumeLost(first pipeline.Block, err error) {
	p := whole("", "it can't be opened: "+err.Error())
	if names := r.checker.backup.Manifest.Volumes; first.Volume <= len(names) {
		p.Object = names[first.Volume-1].Name
	}
	if errors.Is(err, catalog.ErrMissing) {
		p.Message = "it is missing"
	}
	for b := range r.index.Blocks(first.Raw, r.index.RawSize()) {
		if b.Volume != first.Volume {
			break
		}
		r.covered = b.Raw + b.RawSize
	}
	p.RawOffset = first.Raw
	r.damage.hit(first.Raw, r.covered, &p)
	r.checker.problem(p)
}

// blockLost reports a damaged block.
func (r *blockReader) blockLost(e *pipeline.BlockError) {
	b := e.Block
	message := strings.TrimPrefix(e.Err.Error(), pipeline.ErrBlock.Error()+": ")
	p := whole("", fmt.Sprintf("damaged block of %d bytes: %s", b.StoredSize, message))
	p.RawOffset = b.Raw
	r.checker.place(&p)
	p.StoredOffset = r.firstBroken(b)
	r.covered = b.Raw + b.RawSize
	r.damage.hit(b.Raw, r.covered, &p)
	r.checker.problem(p)
}

// ageChunk is how many bytes of plaintext an age file proves at a time.
const ageChunk = 64 << 10

// firstBroken returns where in its volume, as it is stored, the damage of a block begins: at the first chunk of the age
// file that can't be read, or where the block does.
func (r *blockReader) firstBroken(b pipeline.Block) int64 {
	at := b.Stored
	if r.checker.backup.Manifest.Encrypted {
		at = r.firstUnreadable(b)
	}
	return r.volumes.Stored(b.Volume, at)
}

func (r *blockReader) firstUnreadable(b pipeline.Block) int64 {
	volume, err := r.volumes.At(b.Volume)
	if err != nil {
		return b.Stored
	}
	var one [1]byte
	for at := b.Stored; at < b.Stored+b.StoredSize; at = (at/ageChunk + 1) * ageChunk {
		if n, _ := volume.ReadAt(one[:], at); n == 0 {
			return at
		}
	}
	return b.Stored
}

// place fills in in which block of which object a problem of the raw stream is.
func (c *checker) place(p *Problem) {
	if c.blocks == nil || p.RawOffset < 0 {
		return
	}
	number, b, found := c.blocks.at(p.RawOffset)
	if !found {
		return
	}
	p.Block, p.Offset = number, b.Stored
	if volumes := c.backup.Manifest.Volumes; b.Volume <= len(volumes) {
		p.Object = volumes[b.Volume-1].Name
	}
	if !c.backup.Manifest.Encrypted {
		p.StoredOffset = b.Stored
	} else if c.stored != nil {
		p.StoredOffset = c.stored(b.Volume, b.Stored)
	}
}
