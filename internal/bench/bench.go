package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mbwrap/mbwrap/internal/gendata"
)

// bench is one run of the whole measurement.
type bench struct {
	options *options
	work    string
	out     io.Writer
	tool    string // mariadb-backup

	tables   []resultTable
	promises []promise
}

// resultTable is one table of the report.
type resultTable struct {
	title, note string
	raw         int64 // bytes of input, for ratios and speeds
	sized       bool  // the contenders made output whose size counts
	rows        []*contender
}

func (b *bench) path(name string) string { return filepath.Join(b.work, name) }

func (b *bench) progress(c *contender) {
	s := c.samples[len(c.samples)-1]
	fmt.Fprintf(b.out, "  %-32s %7.2f s  %7.2f s CPU  %6.1f MB  RSS %5.0f MiB\n",
		c.name, s.wall.Seconds(), s.cpu.Seconds(), float64(s.size)/1e6, float64(s.rss)/(1<<20))
}

// part is a measurement on a stream.
type part struct {
	name string
	run  func(context.Context, *stream) error
}

// partMemory is the part that needs no real stream.
const partMemory = "memory"

// parts returns those that need one, in their order.
func (b *bench) parts() []part {
	return []part{{"pack", b.pack}, {"cost", b.cost}, {"seal", b.seal}, {"restore", b.restore}}
}

// wanted tells whether the part of that name is to be measured.
func (b *bench) wanted(name string) bool { return b.options.only == "" || b.options.only == name }

// run measures everything and prints the tables and the promises.
func (b *bench) run(ctx context.Context) error {
	if b.options.only != partMemory {
		for _, kind := range []gendata.Kind{gendata.Sysbench, gendata.TPCC} {
			if err := b.onStream(ctx, kind); err != nil {
				return err
			}
		}
	}
	if b.wanted(partMemory) {
		if err := b.memory(ctx); err != nil {
			return err
		}
	}
	_, err := b.out.Write(b.report(plainText{}))
	return err
}

// onStream measures what is wanted on a stream of one kind.
func (b *bench) onStream(ctx context.Context, kind gendata.Kind) error {
	fmt.Fprintf(b.out, "\n%s: a server with about %s of data\n", kind, b.options.size.String())
	s, err := b.takeStream(ctx, kind)
	if err != nil {
		return err
	}
	for _, p := range b.parts() {
		if !b.wanted(p.name) {
			continue
		}
		if err := p.run(ctx, s); err != nil {
			return err
		}
	}
	return os.Remove(s.path)
}

// filter returns a contender that turns the stream on its standard input into a file.
func (b *bench) filter(s *stream, name string, argv ...string) *contender {
	return &contender{name: name, run: func(ctx context.Context) (sample, error) {
		return measure(ctx, command{argv: argv, stdin: s.path, out: b.path("out")})
	}}
}

// mbwrap returns a contender that packs the stream as the last stage of a pipeline.
func (b *bench) mbwrap(s *stream, name string, args ...string) *contender {
	argv := append([]string{b.options.mbwrap, "backup", "--stdin", "--to", "-", "--quiet", "--jobs", "2"}, args...)
	c := b.filter(s, name, argv...)
	c.ours = true
	return c
}

func (b *bench) pack(ctx context.Context, s *stream) error {
	fmt.Fprintf(b.out, "\n%s: pack %.0f MB\n", s.kind, float64(s.size)/1e6)
	rows := []*contender{
		b.mbwrap(s, "mbwrap"),
		b.filter(s, "zstd -T0 -1", "zstd", "-q", "-T0", "-1", "-c"),
		b.mbwrap(s, "mbwrap --level 1", "--codec", "zstd", "--level", "1"),
		b.filter(s, "zstd -T0 -3", "zstd", "-q", "-T0", "-3", "-c"),
		b.mbwrap(s, "mbwrap --level 3", "--codec", "zstd", "--level", "3"),
		b.filter(s, "lz4 -1", "lz4", "-q", "-1", "-c"),
		b.mbwrap(s, "mbwrap --codec lz4 --level 1", "--codec", "lz4", "--level", "1"),
		b.filter(s, "pigz -1 -p2", "pigz", "-1", "-p2", "-c"),
		b.filter(s, "gzip -1", "gzip", "-1", "-c"),
		b.mbwrap(s, "mbwrap --codec gzip --level 1", "--codec", "gzip", "--level", "1"),
		b.filter(s, "pigz -6 -p2", "pigz", "-6", "-p2", "-c"),
		b.mbwrap(s, "mbwrap --codec gzip --level 6", "--codec", "gzip", "--level", "6"),
		b.filter(s, "gzip -6", "gzip", "-6", "-c"),
		b.filter(s, "gzip -9", "gzip", "-9", "-c"),
	}
	if err := race(ctx, rows, b.options.runs, b.progress); err != nil {
		return err
	}
	rows = append(rows, s.qpressAlone())
	b.tables = append(b.tables, resultTable{
		title: fmt.Sprintf("Pack: %s, %d rows, a stream of %.0f MB", s.kind, s.rows, float64(s.size)/1e6),
		note: "qpress is what mariadb-backup --compress --compress-threads=2 takes more than mariadb-backup alone, " +
			"which took " + fmt.Sprintf("%.2f s and %.2f s of CPU.", s.plain.median().wall.Seconds(), s.plain.median().cpu.Seconds()),
		raw: s.size, sized: true, rows: rows,
	})
	b.promisePack(s, rows)
	return nil
}

// qpressAlone is the cost of the tool's own compression without that of reading the server's files.
func (s *stream) qpressAlone() *contender {
	with, without := s.qpress.median(), s.plain.median()
	return &contender{name: "qpress", samples: []sample{{
		wall: max(0, with.wall-without.wall), cpu: max(0, with.cpu-without.cpu), size: with.size,
	}}}
}

// restore measures the way back, into an empty directory each time.
func (b *bench) restore(ctx context.Context, s *stream) error {
	fmt.Fprintf(b.out, "\n%s: restore %.0f MB\n", s.kind, float64(s.size)/1e6)
	packed, repo := b.path("packed.zst"), b.path("repo")
	for _, c := range []command{
		{argv: []string{"zstd", "-q", "-T0", "-1", "-c"}, stdin: s.path, out: packed},
		{argv: []string{b.options.mbwrap, "backup", "--stdin", "--quiet", "--repo", repo, "--server", "bench", "--level", "1"}, stdin: s.path},
	} {
		if _, err := measure(ctx, c); err != nil {
			return err
		}
	}
	defer os.RemoveAll(repo)
	defer os.Remove(packed)
	const peer = `set -o pipefail; mkdir "$2" && zstd -q -dc "$1" | mbstream -x -p 2 -C "$2"`
	contenders := func(dir string) []*contender {
		rows := []*contender{
			into(dir, peerRestore, "bash", "-c", peer, "bash", packed),
			into(dir, peerDurable, "bash", "-c", peer+` && sync -f "$2"`, "bash", packed),
			into(dir, ourRestore, b.options.mbwrap, "restore", "--quiet", "--no-prepare", "--owner", owner(),
				"--repo", repo, "--server", "bench", "latest", "--target-dir"),
			into(dir, "mbwrap extract FILE", b.options.mbwrap, "extract", "--quiet", packed, "--target-dir"),
		}
		rows[2].ours, rows[3].ours = true, true
		return rows
	}
	if err := b.restoreInMemory(ctx, s, contenders); err != nil {
		return err
	}
	rows := contenders(b.path("target"))
	if err := race(ctx, rows, b.options.runs, b.progress); err != nil {
		return err
	}
	b.tables = append(b.tables, resultTable{
		title: fmt.Sprintf("Restore: %s, a stream of %.0f MB at level 1", s.kind, float64(s.size)/1e6),
		note: "mbwrap checks every checksum and the files are on the disk when it ends; mbstream leaves them to the page cache, " +
			"unless a sync follows.",
		raw: s.size, rows: rows,
	})
	b.promiseRestore(s, rows)
	return nil
}

// Names of contenders that promises are about.
const (
	peerRestore = "zstd -dc | mbstream -x -p 2"
	peerDurable = "the same, then sync -f"
	ourRestore  = "mbwrap restore --no-prepare"
)

// memoryFS is where Linux keeps a file system in memory.
const memoryFS = "/dev/shm"

// restoreInMemory measures the way back into a file system in memory, where a disk decides nothing. It is left out where
// that has no room.
func (b *bench) restoreInMemory(ctx context.Context, s *stream, contenders func(dir string) []*contender) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memoryFS, &fs); err != nil || int64(fs.Bavail)*fs.Bsize < 2*s.size {
		fmt.Fprintf(b.out, "  %s has no room for a restore in memory\n", memoryFS)
		return nil
	}
	dir, err := os.MkdirTemp(memoryFS, "mbwrap-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rows := contenders(filepath.Join(dir, "target"))
	if err := race(ctx, rows, b.options.runs, b.progress); err != nil {
		return err
	}
	b.tables = append(b.tables, resultTable{
		title: fmt.Sprintf("Restore: %s, a stream of %.0f MB at level 1, into memory (%s)", s.kind, float64(s.size)/1e6, memoryFS),
		note:  "No disk takes part.",
		raw:   s.size, rows: rows,
	})
	got := times(find(rows, peerRestore).wall, find(rows, ourRestore).wall)
	b.promise(got >= 1.3, fmt.Sprintf("%s: restore is at least 1.3 times as fast as zstd -dc | mbstream -x -p 2, files in memory", s.kind),
		fmt.Sprintf("%.2f times", got))
	return nil
}

// into returns a contender whose last argument is dir, which does not exist yet and is removed again afterwards.
func into(dir, name string, argv ...string) *contender {
	return &contender{name: name, run: func(ctx context.Context) (sample, error) {
		s, err := measure(ctx, command{argv: append(argv[:len(argv):len(argv)], dir)})
		if removeErr := os.RemoveAll(dir); err == nil {
			err = removeErr
		}
		return s, err
	}}
}

func owner() string { return fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()) }

// memory packs generated streams of two sizes into a repository and notes the largest resident set.
func (b *bench) memory(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "\nmemory\n")
	table := resultTable{
		title: "Memory: a generated stream into a repository, 2 jobs",
		note:  "The stream is made while it is packed and takes its share of the cores, so the times mean little.",
	}
	for _, size := range []*gendata.Size{&b.options.small, &b.options.huge} {
		c := &contender{name: "mbwrap backup, " + size.String(), ours: true, run: func(ctx context.Context) (sample, error) {
			return b.packGenerated(ctx, self, size.String())
		}}
		if err := race(ctx, []*contender{c}, 1, b.progress); err != nil {
			return err
		}
		table.rows = append(table.rows, c)
	}
	b.tables = append(b.tables, table)
	b.promiseMemory(table.rows)
	return nil
}

// packGenerated runs the generator into mbwrap, whose usage alone is returned.
func (b *bench) packGenerated(ctx context.Context, self, size string) (s sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	repo, fifo := b.path("repo"), b.path("fifo")
	defer os.RemoveAll(repo)
	defer os.Remove(fifo)
	if err := mkfifo(fifo); err != nil {
		return s, err
	}
	source := exec.CommandContext(ctx, "sh", "-c", `exec "$0" "$1" "$2" >"$3"`, self, generateCommand, size, fifo)
	source.Stderr = os.Stderr
	if err := source.Start(); err != nil {
		return s, err
	}
	s, err = measure(ctx, command{
		argv:  []string{b.options.mbwrap, "backup", "--stdin", "--quiet", "--repo", repo, "--server", "bench", "--jobs", "2"},
		stdin: fifo,
	})
	if err != nil {
		cancel() // the generator may wait for a reader that is gone
	}
	if waitErr := source.Wait(); err == nil {
		err = waitErr
	}
	return s, err
}
