package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/sinks"
)

// hashPiece is how much of an object is read at a time, in bytes.
const hashPiece = 1 << 20

// run does what the level asks for. With level Read the sums are checked while the blocks are decoded: the second reader
// finds the pages of the first in memory.
func (c *checker) run(ctx context.Context) error {
	if err := c.sums(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.options.Jobs + 1)
	if c.options.Level == Read {
		group.Go(func() error { return c.read(ctx) })
	}
	for _, o := range c.backup.Manifest.Objects() {
		group.Go(func() error { return c.hash(ctx, o) })
	}
	return group.Wait()
}

// sums compares SHA256SUMS with the manifest.
func (c *checker) sums(ctx context.Context) error {
	data, err := c.backup.ReadSums(ctx)
	if err != nil {
		return c.unreadable(ctx, catalog.SumsObject, err)
	}
	if !bytes.Equal(data, c.backup.Manifest.Sums()) {
		c.problem(whole(catalog.SumsObject, "it does not say what the manifest says"))
	}
	return nil
}

// hash compares an object's stored bytes with its sum.
func (c *checker) hash(ctx context.Context, want catalog.Object) error {
	object, err := c.backup.Open(ctx, want.Name)
	if err != nil {
		return c.unreadable(ctx, want.Name, err)
	}
	defer object.Close()
	if object.Size() != want.Size {
		c.problem(whole(want.Name, fmt.Sprintf("it has %d bytes, the manifest says %d", object.Size(), want.Size)))
		return nil
	}
	sum, n, err := c.sum(ctx, object)
	if err != nil {
		return c.unreadable(ctx, want.Name, err)
	}
	if n != want.Size {
		c.problem(whole(want.Name, fmt.Sprintf("it ended after %d of %d bytes", n, want.Size)))
	} else if sum != want.SHA256 {
		c.problem(whole(want.Name, fmt.Sprintf("its SHA-256 is %s, the manifest says %s", sum, want.SHA256)))
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.report.Objects++
	c.report.StoredBytes += n
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
