package restore

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"runtime"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// extract makes the files and sees that they are on the disk.
func (r *runner) extract(ctx context.Context) error {
	var log *os.File // none for a stream, which always starts over
	rest := r.plan
	if r.plan != nil {
		var done map[int]int64
		var err error
		if log, done, err = openLog(r.work.dir); err != nil {
			return err
		}
		if rest, err = r.keep(done); err != nil {
			return errors.Join(err, log.Close())
		}
	}
	j := startJournal(r.work.disk, log, r.syncEvery)
	x := &extraction{root: r.work.data, writers: max(2, runtime.GOMAXPROCS(0)), jobs: r.Jobs, meter: r.Meter, journal: j}
	if x.meter == nil {
		x.meter = new(pipeline.Meter)
	}
	var err error
	switch {
	case rest != nil:
		err = r.extractPlan(ctx, x, rest)
	case r.Salvage:
		err = r.gleanStream(ctx, x)
	default:
		err = r.extractStream(ctx, x)
	}
	if err == nil && r.losses.any() {
		err = r.work.prune()
	}
	if err != nil {
		return errors.Join(err, j.close())
	}
	if err := j.discard(); err != nil {
		return err
	}
	return syncTree(ctx, r.work.data, r.work.disk)
}

// extractStream makes the files of a stream, or of a backup without an index.
func (r *runner) extractStream(ctx context.Context, x *extraction) (err error) {
	s := r.stream
	if s == nil {
		var closeAll func() error
		if s, closeAll, err = sequential(ctx, r.Backup); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeAll()) }()
		if r.OnTotal != nil {
			r.OnTotal(r.Backup.Manifest.RawBytes)
		}
	}
	return x.streamed(ctx, s)
}

// extractPlan makes the files of a plan.
func (r *runner) extractPlan(ctx context.Context, x *extraction, p *plan) error {
	if len(p.files) == 0 {
		return nil
	}
	if r.Salvage {
		p = p.parts()
	}
	if r.OnTotal != nil {
		r.OnTotal(p.total())
	}
	if r.Salvage {
		return x.gather(ctx, r.Backup, p, &r.losses)
	}
	return x.planned(ctx, r.Backup, p)
}

// gleanStream makes the files of what can be read of a stream, or of a backup without an index.
func (r *runner) gleanStream(ctx context.Context, x *extraction) (err error) {
	if s := r.stream; s != nil {
		plain := &plainReader{name: s.Name, src: s.Reader}
		one := part{
			name: s.Name, open: func() (io.ReadCloser, error) { return plain, nil }, expect: s.Expect, interrupt: s.Interrupt,
		}
		return x.glean(ctx, []part{one}, &r.losses)
	}
	volumes := newRemains(ctx, r.Backup)
	defer func() { err = errors.Join(err, volumes.close()) }()
	parts, err := volumeParts(r.Backup, volumes)
	if err != nil {
		return err
	}
	if r.OnTotal != nil {
		r.OnTotal(r.Backup.Manifest.RawBytes)
	}
	return x.glean(ctx, parts, &r.losses)
}

// keep removes what an earlier run has not completed and returns a plan of what is missing.
func (r *runner) keep(done map[int]int64) (*plan, error) {
	kept := make(map[string]bool)
	rest := r.plan.without(func(f catalog.File) bool {
		size, listed := done[f.Version]
		if !listed {
			return false
		}
		info, err := r.work.data.Lstat(f.Path)
		if err != nil || !info.Mode().IsRegular() || info.Size() != size {
			return false // it is made again, whatever is the matter with it
		}
		kept[f.Path] = true
		return true
	})
	r.result.Kept = int64(len(kept))
	return rest, r.work.clear(kept)
}

// extraction makes files in a directory.
type extraction struct {
	root    *os.Root
	writers int
	jobs    int
	meter   *pipeline.Meter
	journal *journal
}

// planned makes the files of a plan out of the blocks of a backup.
func (x *extraction) planned(ctx context.Context, b *catalog.Backup, p *plan) (err error) {
	c, err := codec.Lookup(b.Manifest.Codec)
	if err != nil {
		return err
	}
	volumes := b.StoredVolumes(ctx)
	defer func() { err = errors.Join(err, volumes.Close()) }()
	t := newTree(x.root, x.writers, x.journal)
	chunks, stopChunks := iter.Pull(p.chunks())
	defer stopChunks()
	spans, stopSpans := iter.Pull(p.spans())
	defer stopSpans()
	feeder := &spanFeeder{
		router: &router{assembler: assembler{tree: t, open: make(map[int]*file)}, plan: p, next: chunks},
		next:   spans,
	}
	err = pipeline.Unpack(ctx, pipeline.UnpackOptions{
		Codec: c, Jobs: x.jobs, Blocks: p.blocks(), Volume: volumes.At, Meter: x.meter,
	}, feeder.emit)
	if err == nil {
		err = feeder.finish()
	}
	return endTree(t, err)
}

// streamed makes the files of a stream as it comes.
func (x *extraction) streamed(ctx context.Context, s *Stream) (err error) {
	plain := &plainReader{name: s.Name, src: s.Reader}
	defer func() { err = errors.Join(err, plain.Close()) }()
	t := newTree(x.root, x.writers, x.journal)
	checker := xbstream.NewChecker(xbstream.Options{Handler: newFollower(t), Expect: s.Expect})
	err = pipeline.Feed(ctx, plain, pipeline.FeedOptions{Meter: x.meter, Interrupt: s.Interrupt},
		func(raw *pipeline.Raw) error {
			defer raw.Release()
			return t.feed(raw, raw.Data, checker)
		})
	if err == nil {
		err = checker.Close()
	}
	return endTree(t, err)
}

// endTree ends a tree that was filled, or failed to be. An error of a writer is what others followed from.
func endTree(t *tree, err error) error {
	if closed := t.close(); closed != nil {
		return closed
	}
	return err
}
