package xbstream_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/xbstream"
)

// bigChunk gives the head of a chunk whose payload is b, and the chunk that ends the file.
func bigChunk(b block) (head, tail []byte) {
	return rawPayload(0, "db/t.ibd.delta", uint64(b.size()), 0, b.crc(), ""), end("db/t.ibd.delta")
}

// allocated returns how many bytes f allocates in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestLargeChunks sends the largest chunks that MariaDB makes, 64 MiB with pages of 16 KiB and 1 GiB with pages of 64 KiB,
// through in memory that doesn't depend on their size.
func TestLargeChunks(t *testing.T) {
	for _, times := range []int{64, 1024} {
		b := newBlock(1<<20, times)
		head, tail := bigChunk(b)
		used := allocated(func() {
			c := xbstream.NewChecker(xbstream.Options{Expect: xbstream.ExpectAny})
			mustWrite(t, c, head)
			for range b.times {
				mustWrite(t, c, b.data)
			}
			mustWrite(t, c, tail)
			if err := c.Close(); err != nil {
				t.Errorf("%d MiB: %v", times, err)
			}
		})
		if used > 64<<10 {
			t.Errorf("%d MiB: checker allocated %d bytes, want a few KiB", times, used)
		}
	}
}

func TestLargeChunkReaderWriter(t *testing.T) {
	b := newBlock(1<<20, 64)
	head, tail := bigChunk(b)
	src := []io.Reader{bytes.NewReader(head)}
	for range b.times {
		src = append(src, bytes.NewReader(b.data))
	}
	src = append(src, bytes.NewReader(tail))
	c := xbstream.NewChecker(xbstream.Options{Expect: xbstream.ExpectAny})
	used := allocated(func() {
		if err := read(io.MultiReader(src...), c); err != nil {
			t.Error(err)
		}
	})
	if want := b.size() + int64(len(head)+len(tail)); c.Close() != nil || c.Stats().Bytes != want {
		t.Errorf("got %+v, want %d bytes", c.Stats(), want)
	}
	if used > 256<<10 {
		t.Errorf("reader and writer allocated %d bytes, want a few buffers", used)
	}
}

func mustWrite(t testing.TB, w io.Writer, p []byte) {
	t.Helper()
	if n, err := w.Write(p); err != nil || n != len(p) {
		t.Fatalf("got %d, %v, want %d", n, err, len(p))
	}
}

// TestLargeSparseMap allocates for a map as it arrives, not as it is announced.
func TestLargeSparseMap(t *testing.T) {
	head := rawSparse("a", 1<<18, 1, 0, 0, sparseMap(1, 1))
	used := allocated(func() {
		_, err := check(head, 16, xbstream.Options{})
		if kindOf(err) != xbstream.KindTruncated {
			t.Errorf("checker: got %v, want truncated", err)
		}
		if err := read(bytes.NewReader(head), io.Discard); kindOf(err) != xbstream.KindTruncated {
			t.Errorf("reader: got %v, want truncated", err)
		}
	})
	if used > 256<<10 {
		t.Errorf("allocated %d bytes for a map that never came", used)
	}
	extents := make([]uint32, 2<<17)
	for i := range extents {
		extents[i] = uint32(i & 1) // 1 byte of data each
	}
	whole := join(sparse("a", 0, string(make([]byte, 1<<17)), extents...), end("a"))
	agree(t, whole, 4096, len(whole))
}

const manyFiles = 300000

// live returns the bytes of heap that are in use.
func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestManyFiles checks a backup of 300,000 files, then drops tables and databases out of it. A Checker must stay small
// and a remove must not cost a walk over all files.
func TestManyFiles(t *testing.T) {
	before := live()
	c := xbstream.NewChecker(xbstream.Options{Expect: xbstream.ExpectAny})
	many := manyEnds(".ibd")
	mustWrite(t, c, many)
	if used := live() - before - int64(cap(many)); used > 45<<20 {
		t.Errorf("%d files take %d MiB, want at most 45", manyFiles, used>>20)
	} else {
		t.Logf("%d files take %d bytes", manyFiles, used)
	}
	began := time.Now()
	for i := range 5000 {
		mustWrite(t, c, remove(manyPath(i, ".ibd")))
		mustWrite(t, c, remove(manyPath(i, ".frm"))) // never seen
	}
	for i := range 2000 {
		mustWrite(t, c, remove(manyPath(100000+i, "*")))
		mustWrite(t, c, end(manyPath(100000+i, ".new")))
	}
	for i := range 100 {
		mustWrite(t, c, remove(fmt.Sprintf("customer_%03d", i)))
	}
	// 14,100 walks over all files would take minutes.
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("removes took %v, want a fraction of a second", took)
	}
	// Everything is gone, so every path is free.
	mustWrite(t, c, many)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := c.Stats().Rewrites, 0; got != want {
		t.Errorf("got %d rewrites, want %d", got, want)
	}
}

func manyPath(i int, suffix string) string {
	return fmt.Sprintf("customer_%03d/table_%06d%s", i%100, i, suffix)
}

// manyEnds are empty files, which cost a Checker as much as any.
func manyEnds(suffix string) []byte {
	var b []byte
	for i := range manyFiles {
		b = append(b, end(manyPath(i, suffix))...)
	}
	return b
}

// TestNoAllocationPerChunk holds that the chunks of files that are open cost no memory, wherever writes cut them.
func TestNoAllocationPerChunk(t *testing.T) {
	for _, fragment := range []bool{false, true} {
		for _, step := range []int{50, 1 << 20} {
			c := xbstream.NewChecker(xbstream.Options{Fragment: fragment})
			pos := uint64(0)
			next := func() []byte {
				b := join(payload("db/one.ibd", pos, "some data"), payload("db/two.ibd", pos, "some data"))
				pos += 9
				return b
			}
			mustWrite(t, c, next())
			chunks := make([][]byte, 102)
			for i := range chunks {
				chunks[i] = next()
			}
			i := 0
			got := testing.AllocsPerRun(100, func() {
				for b := chunks[i]; len(b) > 0; b = b[min(step, len(b)):] {
					if _, err := c.Write(b[:min(step, len(b))]); err != nil {
						t.Fatal(err)
					}
				}
				i++
			})
			if got != 0 {
				t.Errorf("fragment %v, step %d: got %v allocations for two chunks, want 0", fragment, step, got)
			}
		}
	}
}

// BenchmarkChecker checks chunks of 10 MiB, as mariadb-backup sends InnoDB files, in blocks of 1 MiB.
func BenchmarkChecker(b *testing.B) {
	data := newBlock(1<<20, 10)
	size, crc := uint64(data.size()), data.crc()
	c := xbstream.NewChecker(xbstream.Options{})
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for n := uint64(0); b.Loop(); n++ {
		if n%10 == 0 {
			b.StopTimer()
			mustWrite(b, c, rawPayload(0, "db/t.ibd", size, n/10*size, crc, ""))
			b.StartTimer()
		}
		if _, err := c.Write(data.data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheckerSmallFiles checks files of 1 KiB in blocks of 1 MiB: the worst case is many tables, not many bytes.
func BenchmarkCheckerSmallFiles(b *testing.B) {
	var stream []byte
	for i := range 10000 {
		stream = append(stream, file(fmt.Sprintf("db/table_%05d.frm", i), string(newBlock(1024, 1).data))...)
	}
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		if stats, err := check(stream, 1<<20, xbstream.Options{Expect: xbstream.ExpectAny}); err != nil || stats.Files != 10000 {
			b.Fatal(stats, err)
		}
	}
}
