package main

import (
	"fmt"
	"syscall"
	"time"
)

// promise is something said about mbwrap that was measured here.
type promise struct {
	text string
	got  string
	kept bool
}

func (b *bench) broken() (n int) {
	for _, p := range b.promises {
		if !p.kept {
			n++
		}
	}
	return n
}

func (b *bench) promise(kept bool, text, got string) {
	b.promises = append(b.promises, promise{text: text, got: got, kept: kept})
}

// find returns the medians of the row of that name.
func find(rows []*contender, name string) sample {
	for _, c := range rows {
		if c.name == name {
			return c.median()
		}
	}
	panic("bench: internal error: no contender named " + name)
}

// times tells how many times as long a takes as b.
func times(a, b time.Duration) float64 { return a.Seconds() / max(b.Seconds(), 1e-3) }

// promisePack checks what is promised about packing.
func (b *bench) promisePack(s *stream, rows []*contender) {
	for _, level := range []string{"1", "3"} {
		ours, peer := find(rows, "mbwrap --level "+level), find(rows, "zstd -T0 -"+level)
		wall, cpu, size := times(ours.wall, peer.wall), times(ours.cpu, peer.cpu), float64(ours.size)/float64(peer.size)
		b.promise(wall <= 1, fmt.Sprintf("%s: zstd level %s takes no more wall time than zstd -T0", s.kind, level), fmt.Sprintf("%.2f of it", wall))
		b.promise(cpu <= 1, fmt.Sprintf("%s: zstd level %s takes no more CPU than zstd -T0", s.kind, level), fmt.Sprintf("%.2f of it", cpu))
		b.promise(size <= 1.005, fmt.Sprintf("%s: zstd level %s is at most 0.5 %% larger", s.kind, level), fmt.Sprintf("%+.2f %%", 100*(size-1)))
	}
	for _, level := range []string{"1", "6"} {
		got := times(find(rows, "pigz -"+level+" -p2").wall, find(rows, "mbwrap --codec gzip --level "+level).wall)
		b.promise(got >= 1.5, fmt.Sprintf("%s: gzip level %s is at least 1.5 times as fast as pigz", s.kind, level), fmt.Sprintf("%.2f times", got))
	}
	size := float64(find(rows, "mbwrap --codec gzip --level 1").size) / float64(find(rows, "gzip -1").size)
	b.promise(size <= 1, fmt.Sprintf("%s: gzip level 1 is not larger than gzip -1", s.kind), fmt.Sprintf("%+.2f %%", 100*(size-1)))
	if s.kind == "sysbench" {
		ours := find(rows, "mbwrap")
		size := float64(ours.size) / float64(find(rows, "gzip -9").size)
		speed := times(find(rows, "gzip -1").wall, ours.wall)
		b.promise(size < 1, "sysbench: the default is smaller than gzip -9", fmt.Sprintf("%+.2f %%", 100*(size-1)))
		b.promise(speed >= 8, "sysbench: the default is at least 8 times as fast as gzip -1", fmt.Sprintf("%.1f times", speed))
	}
}

// promiseRestore checks what is promised about the way back. mbwrap makes its files durable, so the peer that does so
// too is the fair one; the other is printed beside it.
func (b *bench) promiseRestore(s *stream, rows []*contender) {
	ours := find(rows, ourRestore)
	plain, durable := find(rows, peerRestore), find(rows, peerDurable)
	got := times(durable.wall, ours.wall)
	b.promise(got >= 1.3, fmt.Sprintf("%s: restore is at least 1.3 times as fast as zstd -dc | mbstream -x -p 2, files on the disk", s.kind),
		fmt.Sprintf("%.2f times; %.2f times where mbstream's files are left to the page cache", got, times(plain.wall, ours.wall)))
}

// promiseMemory checks that memory does not depend on the size of the backup.
func (b *bench) promiseMemory(rows []*contender) {
	const limit = 128 << 20
	for _, c := range rows {
		rss := c.median().rss
		b.promise(rss < limit, c.name+": peak resident set under 128 MiB", fmt.Sprintf("%.0f MiB", float64(rss)/(1<<20)))
	}
}

// Limits of what a part of a backup may add to its CPU.
const (
	mostEncryption = 0.12
	mostPages      = 0.03
)

// promiseCost checks what encryption and the check of pages add. The first is promised for data that hardly shrinks, which
// leaves most to encrypt.
func (b *bench) promiseCost(s *stream, rows []*contender) {
	plain, pages, encrypted := rows[0], rows[1], rows[2]
	if s.kind == "sysbench" {
		got := growth(plain, encrypted)
		b.promise(got <= mostEncryption, "sysbench: encryption adds at most 12 % of CPU", percent(got))
	}
	got := growth(plain, pages)
	b.promise(got < mostPages, fmt.Sprintf("%s: the check of pages adds less than 3 %% of CPU", s.kind), percent(got))
}

// leastCores is how many cores may compress before one age stream is what they wait for.
const leastCores = 8

// promiseSeal checks that one age stream is enough.
func (b *bench) promiseSeal(e *ceiling) {
	b.promise(e.cores() >= leastCores, fmt.Sprintf("%s: one age stream takes what %d cores compress", e.s.kind, leastCores),
		fmt.Sprintf("%.0f cores", e.cores()))
	b.promise(e.busy() < 1, fmt.Sprintf("%s: one age stream takes what mariadb-backup delivers at full speed", e.s.kind),
		fmt.Sprintf("busy for %.0f %% of the time", 100*e.busy()))
}

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }
