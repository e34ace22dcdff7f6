package restore

import (
	"fmt"
	"hash/maphash"

	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// assembler puts the payload of chunks to its places in the files of a tree. Files are known by their number in the
// stream.
type assembler struct {
	tree *tree
	open map[int]*file

	current  *file             // gets the payload that now passes; nil when it is not wanted
	offset   int64             // where in it the next byte goes
	extents  []xbstream.Extent // those still to come, of a sparse chunk
	room     int64             // bytes until the next of them begins
	isSparse bool
}

// file returns the file of c, which it begins under the given name if it is new.
func (a *assembler) file(c *xbstream.Chunk, name string) (*file, error) {
	if f := a.open[c.File]; f != nil {
		return f, nil
	}
	f, err := a.tree.create(name, c.File)
	if err != nil {
		return nil, err
	}
	a.open[c.File] = f
	return f, nil
}

// chunk does what c says to its file f.
func (a *assembler) chunk(c *xbstream.Chunk, f *file) error {
	a.current, a.isSparse = nil, false
	switch c.Type {
	case xbstream.TypePayload:
		a.current, a.offset = f, c.Offset
	case xbstream.TypeSparse:
		a.current, a.offset, a.isSparse = f, c.Offset, true
		a.extents = append(a.extents[:0], c.Extents...)
		a.room = 0
		return a.skip()
	case xbstream.TypeEnd:
		delete(a.open, c.File)
		return a.tree.end(f)
	}
	return nil // a seek only tells the offset of the payload that follows
}

// skip moves to the next extent of a sparse chunk that has bytes.
func (a *assembler) skip() error {
	for a.room == 0 && len(a.extents) > 0 {
		a.offset += int64(a.extents[0].Skip)
		a.room = int64(a.extents[0].Len)
		a.extents = a.extents[1:]
	}
	a.current.size = max(a.current.size, a.offset)
	return nil
}

// data takes the next piece of the payload.
func (a *assembler) data(p []byte) error {
	if a.current == nil {
		return nil
	}
	if !a.isSparse {
		offset := a.offset
		a.offset += int64(len(p))
		return a.tree.write(a.current, offset, p)
	}
	for len(p) > 0 {
		n := min(a.room, int64(len(p)))
		if n == 0 {
			return fmt.Errorf("payload of %q is longer than its map", a.current.path)
		}
		if err := a.tree.write(a.current, a.offset, p[:n]); err != nil {
			return err
		}
		p = p[n:]
		a.offset += n
		a.room -= n
		if err := a.skip(); err != nil {
			return err
		}
	}
	return nil
}

// follower is an xbstream.Handler that applies a whole stream as it comes, renames and removes included.
type follower struct {
	assembler
	seed maphash.Seed
	seen map[uint64]struct{} // hashes of the paths at which there may be a file
}

func newFollower(t *tree) *follower {
	return &follower{
		assembler: assembler{tree: t, open: make(map[int]*file)},
		seed:      maphash.MakeSeed(), seen: make(map[uint64]struct{}),
	}
}

// see notes that there is a file at path, and tells whether there may have been one before.
func (f *follower) see(path string) bool {
	key := maphash.String(f.seed, path)
	_, found := f.seen[key]
	f.seen[key] = struct{}{}
	return found
}

// Chunk does what a chunk says.
func (f *follower) Chunk(c *xbstream.Chunk) error {
	f.current = nil
	switch c.Type {
	case xbstream.TypeRename:
		f.see(c.NewPath)
		return f.tree.rename(c.Path, c.NewPath)
	case xbstream.TypeRemove:
		return f.tree.remove(c.Path)
	}
	if f.open[c.File] == nil && f.see(c.Path) {
		// The path is sent again, which the checker has found legal: the new version replaces the old one.
		if err := f.tree.unlink(c.Path); err != nil {
			return err
		}
	}
	file, err := f.file(c, c.Path)
	if err != nil {
		return err
	}
	return f.chunk(c, file)
}

// Data takes the next piece of the payload.
func (f *follower) Data(p []byte) error { return f.data(p) }

// feed hands a piece of the stream to the checker in front of the tree.
func (t *tree) feed(raw *pipeline.Raw, data []byte, checker *xbstream.Checker) error {
	t.raw = raw
	_, err := checker.Write(data)
	t.raw = nil
	return err
}
