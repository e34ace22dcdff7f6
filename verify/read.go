package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// stream proves the raw stream of a backup while it is decoded.
type stream struct {
	checker *checker
	parser  *xbstream.Checker
	built   catalog.IndexBuilder // what the index should say
	broken  bool                 // a problem has cut the stream: nothing behind it can be followed
	name    string               // of the object being read, when there is no index
}

func (c *checker) newStream() *stream {
	s := &stream{checker: c}
	s.parser = xbstream.NewChecker(xbstream.Options{Handler: &s.built})
	return s
}

// read decodes every block. Without a usable index it reads the volumes from front to back.
func (c *checker) read(ctx context.Context) error {
	m := c.backup.Manifest
	row, err := codec.Lookup(m.Codec)
	if err != nil {
		return err
	}
	s := c.newStream()
	index, err := c.backup.Index(ctx)
	if err != nil {
		if err := c.unreadable(ctx, m.Index.Name, err); err != nil {
			return err
		}
		err = c.readPlain(ctx, row, s)
	} else {
		err = c.readBlocks(ctx, row, index, s)
	}
	if err != nil {
		return err
	}
	s.end(index)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	stats := s.parser.Stats()
	c.report.RawBytes, c.report.Chunks, c.report.Files = stats.Bytes, stats.Chunks, int64(stats.Files)
	return nil
}

// readBlocks decodes the blocks that the index names, in parallel, and goes on behind damaged ones.
func (c *checker) readBlocks(ctx context.Context, row *codec.Codec, index *catalog.Index, s *stream) error {
	m := c.backup.Manifest
	volumes := c.backup.StoredVolumes(ctx)
	defer volumes.Close() // opened for reading only
	c.extent(index)
	err := pipeline.Unpack(ctx, pipeline.UnpackOptions{
		Codec: row, Jobs: c.options.Jobs, Blocks: index.AllBlocks(), Meter: c.options.Meter,
		Volume: func(n int) (io.ReaderAt, error) {
			volume, err := volumes.At(n)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, catalog.ErrIndex) {
				return missing{}, nil
			}
			return volume, err
		},
		OnDamage: func(e *pipeline.BlockError) error {
			s.broken = true
			c.problem(c.damaged(m, index, e))
			return ctx.Err()
		},
	}, s.take)
	var implausible *pipeline.BlockError
	if errors.As(err, &implausible) && ctx.Err() == nil {
		s.broken = true
		c.problem(c.damaged(m, index, implausible))
		return nil
	}
	return err
}

// missing is read in place of a volume that is not there: every block of it is damaged.
type missing struct{}

func (missing) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// extent compares where the index's blocks end in each volume with the volumes' sizes in the manifest.
func (c *checker) extent(index *catalog.Index) {
	volumes := c.backup.Manifest.Volumes
	ends := make(map[int]int64)
	for b := range index.AllBlocks() {
		ends[b.Volume] = b.Stored + b.StoredSize
		c.report.Blocks++
	}
	for i, v := range volumes {
		if ends[i+1] != v.Size && !c.backup.Manifest.Encrypted {
			c.problem(whole(c.backup.Manifest.Index.Name,
				fmt.Sprintf("its blocks fill %d bytes of %s, which has %d", ends[i+1], v.Name, v.Size)))
		}
	}
	if len(ends) > len(volumes) {
		c.problem(whole(c.backup.Manifest.Index.Name,
			fmt.Sprintf("it names %d volumes, the manifest %d", len(ends), len(volumes))))
	}
}

// take feeds a decoded block to the stream's checker.
func (s *stream) take(raw *pipeline.Raw) error {
	defer raw.Release()
	if s.broken {
		return nil
	}
	if _, err := s.parser.Write(raw.Data); err != nil {
		s.broken = true
		s.checker.problem(streamProblem(s.name, err))
	}
	return nil
}

// end proves that the stream is whole and that the index describes it.
func (s *stream) end(index *catalog.Index) {
	if s.broken {
		return
	}
	if err := s.parser.Close(); err != nil {
		s.checker.problem(streamProblem("", err))
		return
	}
	m := s.checker.backup.Manifest
	if got := s.parser.Stats().Bytes; got != m.RawBytes {
		s.checker.problem(whole("", fmt.Sprintf("it has %d bytes, the manifest says %d", got, m.RawBytes)))
	}
	if index != nil && !s.built.SameChunks(index) {
		s.checker.problem(whole(m.Index.Name, "it does not describe the chunks that are in the stream"))
	}
}

// streamProblem turns an error of the stream's checker into a problem.
func streamProblem(object string, err error) Problem {
	p := whole(object, err.Error())
	var place *xbstream.Error
	if errors.As(err, &place) {
		p.RawOffset = place.Offset
		if place.Path != "" {
			p.Files, p.FileCount = []string{place.Path}, 1
		}
	}
	return p
}

// readPlain decodes the volumes from front to back, as a plain stream.
func (c *checker) readPlain(ctx context.Context, row *codec.Codec, s *stream) error {
	for _, v := range c.backup.Manifest.Volumes {
		object, err := c.backup.Open(ctx, v.Name)
		if err != nil {
			s.broken = true
			if err := c.unreadable(ctx, v.Name, err); err != nil {
				return err
			}
			continue
		}
		s.name = v.Name
		err = c.feed(ctx, row, reader(object, object.Size()), s)
		object.Close() // opened for reading only
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			s.broken = true
			c.problem(whole(v.Name, err.Error()))
		}
	}
	return nil
}

// feed decodes one volume into the stream.
func (c *checker) feed(ctx context.Context, row *codec.Codec, r io.Reader, s *stream) error {
	plain, err := row.NewReader(r)
	if err != nil {
		return err
	}
	defer plain.Close()
	return pipeline.Feed(ctx, plain, pipeline.FeedOptions{Meter: c.options.Meter}, s.take)
}

// maxFiles is how many files a problem names.
const maxFiles = 8

// damaged describes a damaged block and the files that it hits.
func (c *checker) damaged(m *catalog.Manifest, index *catalog.Index, e *pipeline.BlockError) Problem {
	b := e.Block
	p := Problem{Offset: b.Stored, RawOffset: b.Raw, Files: []string{}}
	if b.Volume <= len(m.Volumes) {
		p.Object = m.Volumes[b.Volume-1].Name
	}
	p.Message = strings.TrimPrefix(e.Err.Error(), pipeline.ErrBlock.Error()+": ")
	p.Message = fmt.Sprintf("damaged block of %d bytes: %s", b.StoredSize, p.Message)
	var seen []int
	for chunk := range index.Chunks() {
		if chunk.Start >= b.Raw+b.RawSize {
			break
		}
		if chunk.File < 0 || chunk.Data+chunk.Size <= b.Raw || slices.Contains(seen, chunk.File) {
			continue
		}
		seen = append(seen, chunk.File)
		if p.FileCount++; len(p.Files) < maxFiles {
			p.Files = append(p.Files, chunk.Path)
		}
	}
	return p
}
