package catalog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// The largest index that is promised: a million chunks of 300,000 files.
const (
	manyFiles  = 300_000
	manyChunks = 1_000_000
)

// buildLarge builds it: tables as partitioned schemas have them, four of them in copy at any time, payloads of all sizes
// up to 10 MiB, and blocks of 4 MiB.
func buildLarge(b *IndexBuilder) {
	random := rand.New(rand.NewPCG(1, 2))
	open := make([]xbstream.Chunk, 0, 4)
	files, position := 0, int64(0)
	seen := 0 // versions are numbered by their first chunks
	send := func(c xbstream.Chunk, head int64) {
		c.Start, c.Data = position, position+head+int64(len(c.Path))
		b.Chunk(&c) // fails for unknown types only
		position = c.Data + c.Size
	}
	// Each file has an end and the payloads are spread over them at random.
	for left := manyChunks - manyFiles; files < manyFiles || len(open) > 0; {
		if len(open) < cap(open) && files < manyFiles {
			c := xbstream.Chunk{File: -1}
			c.Path = fmt.Sprintf("shop_%04d/order_lines#P#p%03d.%s", files/120, files/2%60, []string{"frm", "ibd"}[files%2])
			open = append(open, c)
			files++
			continue
		}
		i := random.IntN(len(open))
		if open[i].File < 0 {
			open[i].File = seen
			seen++
		}
		c := open[i]
		if left > 0 && random.IntN(10) < 7 || left > 0 && files == manyFiles && len(open) == 1 {
			left--
			c.Type, c.Size = xbstream.TypePayload, 16384*(1+random.Int64N(640))
			c.Offset = open[i].Offset
			open[i].Offset += c.Size
			send(c, headSize+headPayload)
			continue
		}
		c.Type, c.Offset = xbstream.TypeEnd, 0
		send(c, headSize)
		open = append(open[:i], open[i+1:]...)
	}
	const block = 4 << 20
	stored := int64(0)
	for raw := int64(0); raw < position; raw += block {
		next := pipeline.Block{Raw: raw, RawSize: min(block, position-raw), Volume: 1 + int(stored>>36),
			StoredSize: 1<<20 + random.Int64N(1<<20), CRC: random.Uint32()}
		stored += next.StoredSize
		b.Block(next)
	}
}

// cpu returns the processor time of this process.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestLargeIndex holds the index to its promised size and speed.
func TestLargeIndex(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("it is about speed and memory")
	}
	var b IndexBuilder
	buildLarge(&b)
	if held := cap(b.chunks) + cap(b.blocks); held > 64<<20 {
		t.Errorf("the builder holds %d bytes, want at most 64 MiB", held)
	}
	plain := b.Encode()
	packed, err := compressIndex(plain)
	if err != nil {
		t.Fatal(err)
	}
	if len(packed) > 16<<20 {
		t.Errorf("the index object has %d bytes, want at most 16 MiB", len(packed))
	}
	best := time.Hour
	var ix *Index
	for range 3 {
		start := cpu(t)
		if ix, err = readIndex(bytes.NewReader(packed)); err != nil {
			t.Fatal(err)
		}
		best = min(best, cpu(t)-start)
	}
	if best > time.Second {
		t.Errorf("reading took %v of processor time, want at most 1s", best)
	}
	if ix.NumChunks() != manyChunks || len(ix.Versions()) != manyFiles {
		t.Errorf("got %d chunks of %d files, want %d of %d", ix.NumChunks(), len(ix.Versions()), manyChunks, manyFiles)
	}
	if got := len(ix.Tree()); got != manyFiles {
		t.Errorf("got %d files at the end, want %d", got, manyFiles)
	}
	t.Logf("%d chunks, %d files, %d blocks: %d bytes encoded, %d stored, read in %v",
		manyChunks, manyFiles, ix.NumBlocks(), len(plain), len(packed), best)
}

// BenchmarkReadIndex reads the largest index, compressed as it is stored.
func BenchmarkReadIndex(b *testing.B) {
	var builder IndexBuilder
	buildLarge(&builder)
	packed, err := compressIndex(builder.Encode())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(packed)))
	b.ReportAllocs()
	for b.Loop() {
		ix, err := readIndex(bytes.NewReader(packed))
		if err != nil || ix.NumChunks() != manyChunks {
			b.Fatalf("got %d chunks (%v), want %d", ix.NumChunks(), err, manyChunks)
		}
	}
}
