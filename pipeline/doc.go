// Package pipeline moves a stream through N workers in blocks and keeps it in order.
//
// Pack cuts a stream into blocks of a few MiB, shows every block to a checker, compresses the blocks on all cores and
// writes them, in order, into volumes. Unpack does the reverse from block places that an index knows; Feed does it from
// a plain stream that can only be read from front to back.
//
// What Pack promises: the decoded blocks, one after the other, are the source byte for byte. Blocks are independent
// frames of an ordinary format, so a volume is an ordinary .zst, .gz or .lz4 file.
//
// Memory is bounded by the number of slots (jobs plus a few), each of one raw and one stored block, whatever the length
// of the stream. Every goroutine has ended when Pack, Unpack or Feed returns; the first error wins and cancels the rest.
//
// The package knows readers and writers only: what a volume is, where it lies and whether it is encrypted is the
// caller's business.
package pipeline

import (
	"hash/crc32"
	"io"
	"runtime"
	"sync/atomic"
	"time"
)

// Sizes of blocks in bytes of raw stream. Larger blocks than a few MiB gain under 1 % in size and cost memory.
const (
	DefaultBlockSize = 4 << 20
	MinBlockSize     = 4 << 10
	MaxBlockSize     = 64 << 20
)

// Block is one independent frame: its place in the raw stream and in its volume.
type Block struct {
	Raw        int64  // offset of its first byte in the raw stream
	RawSize    int64  // bytes of raw stream, 1 to MaxBlockSize
	Volume     int    // number of the volume, counted from 1
	Stored     int64  // offset in the volume, before any encryption
	StoredSize int64  // bytes of the frame
	CRC        uint32 // CRC-32C (Castagnoli) of the raw bytes
}

// Volumes hands out the places that Pack writes to. Open is called with 1, 2, … in order; the volume before has been
// closed by then.
type Volumes interface {
	Open(n int) (Volume, error)
}

// Volume is a place that takes a part of the stored stream. It is ended by exactly one of Close, when all of it was
// written, and Abort, when the Pack failed. An error of either fails the Pack.
type Volume interface {
	io.WriteCloser
	Abort() error
}

// castagnoli is the table of the checksum in Block.CRC. It is read only.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C that Block.CRC holds for raw.
func Checksum(raw []byte) uint32 { return crc32.Checksum(raw, castagnoli) }

// Meter counts what a run moves and where it waits. The counters may be read by any goroutine while the run goes on;
// the zero value is ready.
type Meter struct {
	Raw    atomic.Int64 // raw bytes read (Pack) or decoded (Unpack)
	Stored atomic.Int64 // stored bytes written (Pack) or read (Unpack)

	source atomic.Int64 // nanoseconds inside the source's Read
	check  atomic.Int64 // nanoseconds inside the checker
	work   atomic.Int64 // nanoseconds of all workers in the codec
	sink   atomic.Int64 // nanoseconds inside the volumes' Write, Open and Close
	room   atomic.Int64 // nanoseconds the reader waited for a free slot
}

// Times is a snapshot of where a run spent its time. Work is summed over all workers.
type Times struct {
	Source, Check, Work, Sink, Room time.Duration
}

// Times returns how long each stage has been busy so far.
func (m *Meter) Times() Times {
	return Times{
		Source: time.Duration(m.source.Load()),
		Check:  time.Duration(m.check.Load()),
		Work:   time.Duration(m.work.Load()),
		Sink:   time.Duration(m.sink.Load()),
		Room:   time.Duration(m.room.Load()),
	}
}

// Bottleneck names the stage that set the pace of a Pack that took elapsed with the given number of workers, which below
// 1 stands for one a core: "source", "cpu" or "sink". It is the stage that was busy for the largest part of the time.
func (t Times) Bottleneck(elapsed time.Duration, jobs int) string {
	if elapsed <= 0 {
		return "source"
	}
	// The source's time only counts when the reader did not wait for room: a tool that is held up by a full pipe
	// answers at once. The checker runs on the reader's goroutine, so its time is CPU.
	cpu := max(t.Check, t.Work/time.Duration(workers(jobs)))
	switch {
	case t.Sink >= cpu && t.Sink >= t.Source:
		return "sink"
	case cpu >= t.Source:
		return "cpu"
	}
	return "source"
}

// clock adds the time since start to counter and returns now.
func clock(counter *atomic.Int64, start time.Time) time.Time {
	now := time.Now()
	counter.Add(int64(now.Sub(start)))
	return now
}

// workers returns the number of workers for jobs, which is the number of cores when jobs is below 1.
func workers(jobs int) int {
	if jobs < 1 {
		return runtime.GOMAXPROCS(0)
	}
	return jobs
}
