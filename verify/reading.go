package verify

import (
	"context"
	"errors"
	"io"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/pipeline"
)

// read decodes every block. Without a usable index it reads the volumes from front to back.
func (c *checker) read(ctx context.Context) error {
	index, err := c.backup.Index(ctx)
	if err != nil {
		if err := c.unreadable(ctx, c.backup.Manifest.Index.Name, err); err != nil {
			return err
		}
		return c.readPlain(ctx)
	}
	c.blocks = newBlockMap(index)
	s := c.newStream(index)
	defer s.close()
	if err := c.readBlocks(ctx, index, index.AllBlocks(), s); err != nil {
		return err
	}
	tree := index.Tree()
	c.weigh(tree)
	c.report.survey(tree, c.why(index))
	return nil
}

// weigh sums up what a restore will take.
func (c *checker) weigh(files []catalog.File) {
	c.treeBytes, c.redoBytes = 0, 0
	for _, f := range files {
		c.treeBytes += f.Size
		if isRedo(f.Path) {
			c.redoBytes += f.Size
		}
	}
}

// why returns a function that tells why a file can't be restored, "" if it can.
func (c *checker) why(index *catalog.Index) func(catalog.File) string {
	versions := index.Versions()
	return func(f catalog.File) string {
		if c.lostVersion != nil && c.lostVersion(f.Version) {
			return whyDamaged
		}
		return c.lostPaths[versions[f.Version].Path]
	}
}

// lose records that a file, by its path in the stream, is damaged in a way that is seen in the stream only.
func (c *checker) lose(path, why string) {
	if len(c.lostPaths) >= maxProblems || c.lostPaths[path] != "" {
		return
	}
	if c.lostPaths == nil {
		c.lostPaths = make(map[string]string)
	}
	c.lostPaths[path] = why
}

// readPlain decodes the volumes from front to back, as a plain stream.
func (c *checker) readPlain(ctx context.Context) error {
	row, err := codec.Lookup(c.backup.Manifest.Codec)
	if err != nil {
		return err
	}
	s := c.newStream(nil)
	defer s.close()
	volumes := c.backup.StoredVolumes(ctx)
	volumes.Salvage = true
	defer volumes.Close() // opened for reading only
	for i, v := range c.backup.Manifest.Volumes {
		volume, err := volumes.At(i + 1)
		if err == nil {
			err = c.feed(ctx, row, reader(volume, sizeOf(volume)), s)
		}
		if err == nil {
			continue
		}
		s.gap() // what follows can't be followed, but can be decoded
		if errors.Is(err, catalog.ErrMissing) {
			c.once(whole(v.Name, "it is missing"))
		} else if err := c.unreadable(ctx, v.Name, err); err != nil {
			return err
		}
	}
	s.finish()
	return c.surveyPlain(s)
}

// sizeOf returns the size of an opened volume.
func sizeOf(r io.ReaderAt) int64 {
	if sized, ok := r.(interface{ Size() int64 }); ok {
		return sized.Size()
	}
	return 0
}

// feed decodes one volume into the stream.
func (c *checker) feed(ctx context.Context, row *codec.Codec, r io.Reader, s *stream) error {
	plain, err := row.NewReader(r)
	if err != nil {
		return err
	}
	defer plain.Close() // it frees memory only
	base := s.next
	front := &frontReader{r: plain}
	err = pipeline.Feed(ctx, front, pipeline.FeedOptions{Meter: c.options.Meter}, func(raw *pipeline.Raw) error {
		raw.Offset += base
		return s.take(raw)
	})
	return errors.Join(err, front.err)
}

// frontReader ends where its reader fails, so that all in front of that place is handed on.
type frontReader struct {
	r   io.Reader
	err error // why it ended; nil at the end of r
}

func (f *frontReader) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && err != io.EOF {
		f.err, err = err, io.EOF
	}
	return n, err
}

// surveyPlain finds out what of a stream without an index can be restored.
func (c *checker) surveyPlain(s *stream) error {
	front, err := s.front()
	if err != nil {
		c.report.Restorable = RestorableUnknown // the stream itself is not what it should be: told already
		return nil
	}
	c.report.LostMore = !s.entire
	c.weigh(front.Tree())
	c.report.surveyFront(front)
	return nil
}
