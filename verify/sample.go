package verify

import (
	"context"
	"iter"
	"math"
	"math/rand/v2"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/pipeline"
)

// chosen is a set of blocks, by their numbers.
type chosen struct {
	bits []uint64
	n    int64 // blocks that there are
}

func newChosen(n int64) *chosen { return &chosen{make([]uint64, (n+63)/64), n} }

func (c *chosen) add(i int64) {
	if i >= 0 && i < c.n {
		c.bits[i/64] |= 1 << (i % 64)
	}
}

func (c *chosen) has(i int64) bool { return c.bits[i/64]&(1<<(i%64)) != 0 }

// choose returns a part of n blocks: that fraction of them at random, rounded up, and the first and the last one.
func choose(n int64, fraction float64, seed uint64) *chosen {
	c := newChosen(n)
	random := rand.New(rand.NewPCG(seed, 0))
	want := int64(math.Ceil(fraction * float64(n)))
	for i := int64(0); i < n && want > 0; i++ {
		if random.Int64N(n-i) < want {
			c.add(i)
			want--
		}
	}
	c.add(0)
	c.add(n - 1)
	return c
}

// blocks yields the chosen ones of the blocks of an index.
func (c *chosen) blocks(index *catalog.Index) iter.Seq[pipeline.Block] {
	return func(yield func(pipeline.Block) bool) {
		i := int64(0)
		for b := range index.AllBlocks() {
			if c.has(i) && !yield(b) {
				return
			}
			i++
		}
	}
}

// readSample decodes a part of the blocks.
func (c *checker) readSample(ctx context.Context) error {
	index, err := c.backup.Index(ctx)
	if err != nil {
		return c.unreadable(ctx, c.backup.Manifest.Index.Name, err)
	}
	seed := c.options.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	c.blocks = newBlockMap(index)
	set := choose(index.NumBlocks(), c.options.Sample, seed)
	c.report.Sample = c.newSample(index, set, seed)
	if err := c.decodeSample(ctx, index, set); err != nil {
		return err
	}
	c.report.surveySample(index.Tree(), c.why(index))
	return nil
}

// decodeSample decodes the chosen blocks and, above level Hash, follows the whole chunks in them.
func (c *checker) decodeSample(ctx context.Context, index *catalog.Index, set *chosen) error {
	if c.options.Level == Hash {
		return c.readBlocks(ctx, index, set.blocks(index), counter{c})
	}
	s := c.newStream(index)
	defer s.close()
	return c.readBlocks(ctx, index, set.blocks(index), s)
}

// counter takes blocks and counts them only.
type counter struct{ checker *checker }

func (c counter) take(raw *pipeline.Raw) error {
	c.checker.report.RawBytes += int64(len(raw.Data))
	raw.Release()
	return nil
}

func (c counter) gap()    {}
func (c counter) finish() {}

// newSample counts what will be read, and tells how much that is.
func (c *checker) newSample(index *catalog.Index, set *chosen, seed uint64) *Sample {
	s := &Sample{Fraction: c.options.Sample, Seed: seed, OfRawBytes: index.RawSize(), OfBlocks: index.NumBlocks()}
	for b := range index.AllBlocks() {
		s.OfStoredBytes += b.StoredSize
	}
	for b := range set.blocks(index) {
		s.Blocks++
		s.RawBytes += b.RawSize
		s.StoredBytes += b.StoredSize
	}
	if c.options.Level == Hash {
		m := c.backup.Manifest
		c.options.OnTotal(s.StoredBytes + m.Index.Size + m.Log.Size)
	} else {
		c.options.OnTotal(s.RawBytes)
	}
	return s
}
