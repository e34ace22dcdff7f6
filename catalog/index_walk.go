package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mbwrap/mbwrap/xbstream"
)

// Sizes of the heads of chunks, without paths; the source is docs/FORMAT.md of the stream: magic, flags, type and path
// length, then what the type adds.
const (
	headSize       = 8 + 1 + 1 + 4
	headPayload    = 8 + 8 + 4
	headSeek       = 8
	headRename     = 4
	headSparse     = 4 + 8 + 8 + 4
	headExtent     = 8
	maxExtents     = 1 << 20
	maxFileSize    = 1 << 62
	maxChunkRecord = 1 << 20 // paths of one record, far above any path's limit
)

// chunkWalker decodes the chunks section.
type chunkWalker struct {
	data     []byte
	limit    int64 // bytes of the raw stream
	position int64 // stream offset behind the last chunk
	file     int64
	files    []walkedFile
	fresh    bool // the last record declared a file: one of its chunks must follow
	chunk    xbstream.Chunk
}

type walkedFile struct {
	path     string
	position int64 // where the next payload goes
}

var (
	errRecord = errors.New("cut or malformed")
	errFresh  = errors.New("a file is declared and no chunk of it follows")
)

// next returns the next chunk, which is valid until the following call, or io.EOF.
func (w *chunkWalker) next() (*xbstream.Chunk, error) {
	for {
		if len(w.data) == 0 && !w.fresh {
			return nil, io.EOF
		}
		if len(w.data) == 0 || w.fresh && (w.data[0] == recordFile || w.data[0] == recordGap) {
			return nil, errFresh
		}
		tag := w.data[0]
		w.data = w.data[1:]
		switch tag {
		case recordFile:
			path, err := w.path(xbstream.TypePayload)
			if err != nil {
				return nil, err
			}
			w.files = append(w.files, walkedFile{path: path})
			w.fresh = true
		case recordGap:
			n, err := w.number(w.limit - w.position)
			if err != nil {
				return nil, err
			}
			w.position += n
		default:
			if err := w.decode(tag); err != nil {
				return nil, err
			}
			return &w.chunk, nil
		}
	}
}

// decode decodes the record of one chunk into w.chunk.
func (w *chunkWalker) decode(tag byte) error {
	w.chunk = xbstream.Chunk{Start: w.position, File: -1, Header: xbstream.Header{Extents: w.chunk.Extents[:0]}}
	c := &w.chunk
	var err error
	head := int64(headSize)
	switch tag {
	case recordPayload:
		head += headPayload
		err = w.payload(c)
	case recordEnd:
		c.Type = xbstream.TypeEnd
		_, err = w.ofFile(c)
	case recordSeek:
		head += headSeek
		err = w.seek(c)
	case recordRename:
		c.Type = xbstream.TypeRename
		if c.Path, err = w.path(c.Type); err == nil {
			c.NewPath, err = w.path(c.Type)
		}
		head += headRename + int64(len(c.NewPath))
	case recordRemove:
		c.Type = xbstream.TypeRemove
		c.Path, err = w.path(c.Type)
	case recordSparse:
		err = w.sparse(c)
		head += headSparse + headExtent*int64(len(c.Extents))
	default:
		err = fmt.Errorf("unknown tag %d", tag)
	}
	if err == nil && w.fresh && c.File != len(w.files)-1 {
		err = errFresh
	}
	if err != nil {
		return err
	}
	w.fresh = false
	c.Data = c.Start + head + int64(len(c.Path))
	w.position = c.Data + c.Size
	if w.position > w.limit {
		return fmt.Errorf("it ends at offset %d of a stream of %d bytes", w.position, w.limit)
	}
	return nil
}

// ofFile decodes which file a record belongs to.
func (w *chunkWalker) ofFile(c *xbstream.Chunk) (*walkedFile, error) {
	delta, n := binary.Varint(w.data)
	if n <= 0 {
		return nil, errRecord
	}
	w.data = w.data[n:]
	file := w.file + delta
	if file < 0 || file >= int64(len(w.files)) {
		return nil, fmt.Errorf("file version %d of %d", file, len(w.files))
	}
	w.file, c.File = file, int(file)
	c.Path = w.files[file].path
	return &w.files[file], nil
}

func (w *chunkWalker) payload(c *xbstream.Chunk) error {
	c.Type = xbstream.TypePayload
	f, err := w.ofFile(c)
	if err != nil {
		return err
	}
	if c.Size, err = w.number(w.limit - w.position); err != nil {
		return err
	}
	c.Offset = f.position
	return w.advance(f, c.Size)
}

func (w *chunkWalker) seek(c *xbstream.Chunk) error {
	c.Type = xbstream.TypeSeek
	f, err := w.ofFile(c)
	if err != nil {
		return err
	}
	if c.Offset, err = w.number(maxFileSize); err != nil {
		return err
	}
	f.position = c.Offset
	return nil
}

func (w *chunkWalker) sparse(c *xbstream.Chunk) error {
	c.Type = xbstream.TypeSparse
	f, err := w.ofFile(c)
	if err != nil {
		return err
	}
	n, err := w.number(maxExtents)
	if err != nil {
		return err
	}
	c.Offset = f.position
	for range n {
		skip, err := w.number(1<<32 - 1)
		if err != nil {
			return err
		}
		size, err := w.number(1<<32 - 1)
		if err != nil {
			return err
		}
		c.Extents = append(c.Extents, xbstream.Extent{Skip: uint32(skip), Len: uint32(size)})
		c.Size += size
		if err := w.advance(f, skip+size); err != nil {
			return err
		}
	}
	return nil
}

// advance moves the file's position, which must stay a file's size.
func (w *chunkWalker) advance(f *walkedFile, n int64) error {
	if f.position > maxFileSize-n {
		return fmt.Errorf("%q grows beyond %d bytes", f.path, int64(maxFileSize))
	}
	f.position += n
	return nil
}

// number decodes a number from 0 to limit.
func (w *chunkWalker) number(limit int64) (int64, error) {
	v, n := binary.Uvarint(w.data)
	if n <= 0 {
		return 0, errRecord
	}
	if limit < 0 || v > uint64(limit) {
		return 0, fmt.Errorf("%d is more than %d", v, limit)
	}
	w.data = w.data[n:]
	return int64(v), nil
}

// path decodes a path that is legal in a chunk of the given type.
func (w *chunkWalker) path(t xbstream.Type) (string, error) {
	size, err := w.number(maxChunkRecord)
	if err != nil {
		return "", err
	}
	if size > int64(len(w.data)) {
		return "", errRecord
	}
	path := string(w.data[:size])
	w.data = w.data[size:]
	return path, checkPath(t, path)
}

var errRemoveAll = errors.New("remove of every path")

// checkPath is xbstream.CheckPath, for a chunk of the given type: that of a remove may end in a "*" that stands for any
// end of a name.
func checkPath(t xbstream.Type, path string) error {
	prefix, star := strings.CutSuffix(path, "*")
	switch {
	case t != xbstream.TypeRemove || !star:
		return xbstream.CheckPath(path)
	case prefix == "":
		return errRemoveAll
	}
	return xbstream.CheckPath(prefix + "x")
}
