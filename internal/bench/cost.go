package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

// escrow is a recipient whose identity nobody has kept: what is encrypted here is never read.
const escrow = "age190dmv63nq842styafn6yyasvq0rpmcuy440drruckr5et4fqfezs6gxq9w"

// Rows whose difference is what a part of a backup costs.
const (
	costPlain     = "mbwrap backup --repo"
	costPages     = "with --check-pages"
	costEncrypted = "with --encrypt-to"
	sealUsual     = "mbwrap"
	sealNone      = "mbwrap --codec none"
	sealAge       = "mbwrap --codec none, encrypted"
	sealProgram   = "age -e"
	sealHash      = "SHA-256"
)

// leastPairs is how often a small difference is measured at least: the noise of a single run is larger than it.
const leastPairs = 11

// cost measures what encryption and the check of pages add to a backup into a repository.
func (b *bench) cost(ctx context.Context, s *stream) error {
	fmt.Fprintf(b.out, "\n%s: what encryption and the check of pages cost\n", s.kind)
	rows := []*contender{
		b.intoRepository(s, costPlain, "--no-check-pages"),
		b.intoRepository(s, costPages, "--check-pages"),
		b.intoRepository(s, costEncrypted, "--no-check-pages", "--encrypt-to", escrow),
	}
	if err := race(ctx, rows, max(b.options.runs, leastPairs), b.progress); err != nil {
		return err
	}
	b.tables = append(b.tables, resultTable{
		title: fmt.Sprintf("Cost of encryption and of the check of pages: %s, a stream of %.0f MB into a repository", s.kind, float64(s.size)/1e6),
		note: fmt.Sprintf("CPU that is added, by the cheaper half of %d runs of each in turns: encryption %s, check of pages %s.", len(rows[0].samples),
			percent(growth(rows[0], rows[2])), percent(growth(rows[0], rows[1]))),
		raw: s.size, rows: rows,
	})
	b.promiseCost(s, rows)
	return nil
}

// intoRepository returns a contender that files the stream in a new repository, which is removed again.
func (b *bench) intoRepository(s *stream, name string, args ...string) *contender {
	repo := b.path("repo")
	argv := append([]string{b.options.mbwrap, "backup", "--stdin", "--quiet", "--jobs", "2", "--repo", repo, "--server", "bench"}, args...)
	return &contender{name: name, ours: true, run: func(ctx context.Context) (sample, error) {
		r, err := measure(ctx, command{argv: argv, stdin: s.path})
		if removeErr := os.RemoveAll(repo); err == nil {
			err = removeErr
		}
		return r, err
	}}
}

// growth is by how much more CPU b took than a, each in the cheaper half of its runs. They took turns, and what else the
// machine does can only add to a run; the best one alone would be a matter of luck.
func growth(a, b *contender) float64 { return times(b.cheaper(), a.cheaper()) - 1 }

// cheaper is the mean CPU of the cheaper half of the runs, the one in the middle included.
func (c *contender) cheaper() time.Duration {
	all := slices.SortedFunc(slices.Values(c.samples), func(a, b sample) int { return cmp.Compare(a.cpu, b.cpu) })
	half := all[:(len(all)+1)/2]
	var sum time.Duration
	for _, s := range half {
		sum += s.cpu
	}
	return sum / time.Duration(len(half))
}

// least is the least CPU that a run took.
func (c *contender) least() time.Duration {
	return slices.MinFunc(c.samples, func(a, b sample) int { return cmp.Compare(a.cpu, b.cpu) }).cpu
}

func percent(share float64) string { return fmt.Sprintf("%+.1f %%", 100*share) }

// seal measures whether one age stream can take what many cores compress.
func (b *bench) seal(ctx context.Context, s *stream) error {
	fmt.Fprintf(b.out, "\n%s: the speed of one age stream\n", s.kind)
	rows := []*contender{
		b.mbwrap(s, sealUsual, "--no-check-pages"),
		b.discard(s, sealNone, b.options.mbwrap, "backup", "--stdin", "--to", "-", "--quiet", "--codec", "none", "--no-check-pages"),
		b.discard(s, sealAge, b.options.mbwrap, "backup", "--stdin", "--to", "-", "--quiet", "--codec", "none", "--no-check-pages",
			"--encrypt-to", escrow),
		b.discard(s, sealProgram, "age", "-e", "-r", escrow),
		{name: sealHash, run: func(context.Context) (sample, error) { return hashing(s.size), nil }},
	}
	if err := race(ctx, rows, max(b.options.runs, leastPairs), b.progress); err != nil {
		return err
	}
	e := ceiling{s: s, usual: rows[0], none: rows[1], sealed: rows[2], hash: rows[4]}
	b.tables = append(b.tables, resultTable{
		title: fmt.Sprintf("One age stream: %s, %.0f MB", s.kind, float64(s.size)/1e6),
		note:  e.note(), raw: s.size, rows: rows,
	})
	b.promiseSeal(&e)
	return nil
}

// discard returns a contender that reads the stream and whose output nobody keeps: what a file system takes to store it
// would hide what is measured.
func (b *bench) discard(s *stream, name string, argv ...string) *contender {
	return &contender{name: name, run: func(ctx context.Context) (sample, error) {
		return measure(ctx, command{argv: argv, stdin: s.path})
	}}
}

// hashing hashes so many bytes, a block at a time, on one core.
func hashing(size int64) sample {
	block, hash := make([]byte, 4<<20), sha256.New()
	before, started := ownCPU(), time.Now()
	for left := size; left > 0; left -= int64(len(block)) {
		hash.Write(block[:min(left, int64(len(block)))])
	}
	return sample{wall: time.Since(started), cpu: ownCPU() - before}
}

// ownCPU is what this process has used so far.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ceiling is the question whether the one goroutine that encrypts bounds the speed of a backup on many cores.
type ceiling struct {
	s                         *stream
	usual, none, sealed, hash *contender
}

// perSecond returns the speed in bytes a second.
func perSecond(size int64, took time.Duration) float64 {
	return float64(size) / max(took.Seconds(), 1e-3)
}

// sealing is how many bytes a core encrypts in a second: the stream by what encryption added to its CPU.
func (e *ceiling) sealing() float64 {
	return perSecond(e.s.size, e.sealed.least()-e.none.least())
}

// hashed is how many bytes a core hashes in a second.
func (e *ceiling) hashed() float64 { return perSecond(e.s.size, e.hash.least()) }

// produced is how many stored bytes a core makes in a second when it compresses as usual.
func (e *ceiling) produced() float64 { return perSecond(e.usual.median().size, e.usual.least()) }

// cores is how many cores must compress before they make more than is encrypted.
func (e *ceiling) cores() float64 { return e.sealing() / e.produced() }

// source is how many raw bytes mariadb-backup delivers in a second.
func (e *ceiling) source() float64 { return perSecond(e.s.size, e.s.plain.median().wall) }

// busy is the part of its time that encryption takes when the source runs as fast as it can.
func (e *ceiling) busy() float64 {
	return e.source() * float64(e.usual.median().size) / float64(e.s.size) / e.sealing()
}

// note is the argument why a backup is sealed as one age stream and not as several side by side.
func (e *ceiling) note() string {
	return fmt.Sprintf("The first row compresses into a file; the others only pass the stream on, to nobody. A volume is one age "+
		"file, made by one goroutine while others compress, hash and write. On a core it encrypts %.0f MB/s; the SHA-256 of the same "+
		"bytes, which has to be taken in order as well, runs at %.0f MB/s beside it. A core that compresses makes %.0f MB/s of stored "+
		"bytes, so %.0f cores must compress before they wait for encryption, and the raw stream must then come at %.0f MB/s. "+
		"mariadb-backup delivered %.0f MB/s here, at which encryption is busy for %.0f %% of the time. On fewer cores than that, several "+
		"age streams side by side would gain nothing.",
		e.sealing()/1e6, e.hashed()/1e6, e.produced()/1e6, e.cores(), e.cores()*perSecond(e.s.size, e.usual.least())/1e6,
		e.source()/1e6, 100*e.busy())
}
