package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/sinks"
)

// hashPiece is how much of an object is read at a time, in bytes.
const hashPiece = 1 << 20

// run does what the level asks for. From level Read on the sums are checked while the blocks are decoded: the second reader
// finds the pages of the first in memory.
func (c *checker) run(ctx context.Context) error {
	if err := c.unlocked(ctx); err != nil {
		return err
	}
	if c.options.Level == Restore {
		if err := c.ready(ctx); err != nil {
			return err
		}
	}
	if err := c.look(ctx); err != nil {
		return err
	}
	if c.options.Level == Restore {
		return c.trial(ctx)
	}
	return nil
}

// look reads what is stored.
func (c *checker) look(ctx context.Context) error {
	level, m := c.options.Level, c.backup.Manifest
	c.options.OnPhase(phaseOf(level))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.options.Jobs + 1)
	objects := m.Objects()
	switch {
	case c.options.sampled():
		group.Go(func() error { return c.readSample(ctx) })
		for _, v := range m.Volumes {
			group.Go(func() error { return c.measure(ctx, v) })
		}
		objects = objects[len(m.Volumes):]
	case level == Hash:
		c.options.OnTotal(totalSize(objects))
	default:
		c.options.OnTotal(c.rawTotal())
		group.Go(func() error { return c.read(ctx) })
	}
	group.Go(func() error { return c.keys(ctx) })
	for _, o := range objects {
		group.Go(func() error { return c.hash(ctx, o) })
	}
	return group.Wait()
}

func phaseOf(l Level) string {
	if l == Hash {
		return phaseHash
	}
	return phaseRead
}

// rawTotal returns how many bytes are decoded in all: those of a trial are decoded once more.
func (c *checker) rawTotal() int64 {
	if c.options.Level == Restore {
		return 2 * c.backup.Manifest.RawBytes
	}
	return c.backup.Manifest.RawBytes
}

func totalSize(objects []catalog.Object) int64 {
	var n int64
	for _, o := range objects {
		n += o.Size
	}
	return n
}

// unlocked refuses a backup whose key is needed and missing. If there is a key, it reports what was found wrong with it.
func (c *checker) unlocked(ctx context.Context) error {
	if c.backup.Locked() && c.options.Level == Hash && !c.options.sampled() {
		return nil
	}
	err := c.backup.Unlock(ctx, nil) // never opens anything: it says what it said before
	if err == nil || !errors.Is(err, catalog.ErrAltered) {
		return err
	}
	c.altered = true
	p := whole(catalog.ManifestObject, err.Error())
	for _, name := range []string{catalog.ManifestObject, catalog.KeyObject, catalog.RekeyObject} {
		if rest, ours := strings.CutPrefix(p.Message, name+" of "+c.backup.ID+": "); ours {
			p.Object, p.Message = name, rest
		}
	}
	c.problem(p)
	return nil
}

// keys compares SHA256SUMS, key.age and key.json with what vouches for them.
func (c *checker) keys(ctx context.Context) error {
	data, err := c.backup.ReadSums(ctx)
	if err != nil {
		if err := c.unreadable(ctx, catalog.SumsObject, err); err != nil {
			return err
		}
	} else if !c.backup.SumsFit(data) {
		c.problem(whole(catalog.SumsObject, "it does not say what the manifest says"))
	}
	if !c.backup.Manifest.Encrypted {
		return nil
	}
	if err := c.backup.Err; errors.Is(err, catalog.ErrAltered) {
		c.once(whole(catalog.RekeyObject, err.Error()))
	}
	key, err := c.backup.ReadKey(ctx)
	switch {
	case errors.Is(err, catalog.ErrAltered):
		c.once(whole(catalog.KeyObject, err.Error()))
	case err != nil:
		return c.unreadable(ctx, catalog.KeyObject, err)
	}
	c.count(int64(len(key)))
	return nil
}

// once adds a problem of an object that has none yet.
func (c *checker) once(p Problem) {
	c.mutex.Lock()
	known := false
	for i := range c.report.Problems {
		known = known || c.report.Problems[i].Object == p.Object
	}
	c.mutex.Unlock()
	if !known {
		c.problem(p)
	}
}

// count counts an object that was read as a whole.
func (c *checker) count(n int64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.report.Objects++
	c.report.StoredBytes += n
}

// measure compares an object's size only.
func (c *checker) measure(ctx context.Context, want catalog.Object) error {
	object, err := c.sized(ctx, want)
	if object == nil {
		return err
	}
	return object.Close()
}

// sized opens an object of the size that the manifest says. It returns nil when there is none.
func (c *checker) sized(ctx context.Context, want catalog.Object) (sinks.Object, error) {
	object, err := c.backup.Open(ctx, want.Name)
	if err != nil {
		return nil, c.unreadable(ctx, want.Name, err)
	}
	if object.Size() == want.Size {
		return object, nil
	}
	c.problem(whole(want.Name, fmt.Sprintf("it has %d bytes, the manifest says %d", object.Size(), want.Size)))
	return nil, object.Close()
}

// hash compares an object's stored bytes with its sum.
func (c *checker) hash(ctx context.Context, want catalog.Object) error {
	object, err := c.sized(ctx, want)
	if object == nil {
		return err
	}
	defer object.Close() // opened for reading only
	sum, n, err := c.sum(ctx, object)
	if err != nil {
		return c.unreadable(ctx, want.Name, err)
	}
	if n != want.Size {
		c.problem(whole(want.Name, fmt.Sprintf("it ended after %d of %d bytes", n, want.Size)))
	} else if sum != want.SHA256 {
		c.problem(whole(want.Name, fmt.Sprintf("its SHA-256 is %s, the manifest says %s", sum, want.SHA256)))
	}
	c.count(n)
	return nil
}

// sum returns the SHA-256 of an object in hex, and how many bytes it really had.
func (c *checker) sum(ctx context.Context, object sinks.Object) (string, int64, error) {
	h := sha256.New()
	r := reader(object, object.Size())
	buffer := make([]byte, min(hashPiece, object.Size()+1))
	var total int64
	for {
		if ctx.Err() != nil {
			return "", total, context.Cause(ctx)
		}
		n, err := io.ReadFull(r, buffer)
		h.Write(buffer[:n])
		total += int64(n)
		if c.options.Level == Hash {
			c.options.Meter.Stored.Add(int64(n))
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return hex.EncodeToString(h.Sum(nil)), total, nil
		}
		if err != nil {
			return "", total, err
		}
	}
}
