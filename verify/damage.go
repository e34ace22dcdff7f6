package verify

import (
	"iter"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/innodb"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// maxFiles is how many files and tables a problem names.
const maxFiles = 8

// blockMap numbers the blocks of an index.
type blockMap struct {
	index *catalog.Index
	marks []int64 // raw offset of every blocksPerMark-th block
}

const blocksPerMark = 1024

func newBlockMap(index *catalog.Index) *blockMap {
	m := &blockMap{index: index}
	n := 0
	for b := range index.AllBlocks() {
		if n%blocksPerMark == 0 {
			m.marks = append(m.marks, b.Raw)
		}
		n++
	}
	return m
}

// at returns the block that holds a raw offset, and its number. ok is false if none does.
func (m *blockMap) at(raw int64) (number int64, block pipeline.Block, ok bool) {
	i := sort.Search(len(m.marks), func(i int) bool { return m.marks[i] > raw }) - 1
	if i < 0 {
		return -1, block, false
	}
	number = int64(i) * blocksPerMark
	for block := range m.index.Blocks(m.marks[i], raw+1) {
		if raw < block.Raw+block.RawSize {
			return number, block, true
		}
		number++
	}
	return -1, block, false
}

// chunkCursor walks the chunks of an index once, from the first to the last. It must be closed.
type chunkCursor struct {
	xbstream.Chunk      // where it stands
	ok             bool // it stands on a chunk
	next           func() (*xbstream.Chunk, bool)
	stop           func()
}

func newChunkCursor(index *catalog.Index) *chunkCursor {
	c := new(chunkCursor)
	c.next, c.stop = iter.Pull(index.Chunks())
	c.step()
	return c
}

func (c *chunkCursor) step() {
	var chunk *xbstream.Chunk
	if chunk, c.ok = c.next(); c.ok {
		c.Chunk = *chunk
		c.Extents = slices.Clone(chunk.Extents)
	}
}

// end returns the raw offset behind the chunk.
func (c *chunkCursor) end() int64 { return c.Data + c.Size }

// seek goes on to the first chunk that begins at raw or behind it.
func (c *chunkCursor) seek(raw int64) {
	for c.ok && c.Start < raw {
		c.step()
	}
}

func (c *chunkCursor) close() { c.stop() }

// damage keeps account of the files that the damaged parts of a stream hit. It belongs to one goroutine.
type damage struct {
	index  *catalog.Index
	chunks *chunkCursor
	hits   []int32 // by file version: the number of the last damage that hit it, 0 for none
	count  int32
}

func newDamage(index *catalog.Index) *damage { return &damage{index: index} }

// hit records that the raw stream from start to end is lost, and adds to p what that hits. A chunk that has lost its
// head is lost too. The calls must be in the order of the stream.
func (d *damage) hit(start, end int64, p *Problem) {
	if d.chunks == nil {
		d.chunks = newChunkCursor(d.index)
		d.hits = make([]int32, len(d.index.Versions()))
	}
	d.count++
	for c := d.chunks; c.ok && c.Start < end; c.step() {
		if c.File >= 0 && c.end() > start && d.hits[c.File] != d.count {
			d.hits[c.File] = d.count
			p.addFile(c.Path)
		}
		if c.end() > end {
			return // the next damage may hit it again
		}
	}
}

// lost tells whether a file version was hit.
func (d *damage) lost(version int) bool { return version < len(d.hits) && d.hits[version] != 0 }

func (d *damage) close() {
	if d.chunks != nil {
		d.chunks.close()
	}
}

// addFile adds a file that is hit, and its table.
func (p *Problem) addFile(name string) {
	if p.FileCount++; len(p.Files) < maxFiles {
		p.Files = append(p.Files, name)
	}
	if table := tableOf(name); table != "" && len(p.Tables) < maxFiles && !slices.Contains(p.Tables, table) {
		p.Tables = append(p.Tables, table)
	}
}

// tableSuffixes are the endings of the files that belong to one table, of every engine. A trigger's .TRN does not.
var tableSuffixes = []string{
	".ibd", ".new", ".ren", ".del", ".delta", ".meta", ".frm", ".par", ".isl", ".TRG", ".cfg",
	".MAI", ".MAD", ".MYI", ".MYD", ".CSV", ".CSM", ".ARZ", ".ARM", ".MRG",
}

// tableOf returns the table that a file of a stream belongs to, as "db.table", "" if to none or to many.
func tableOf(name string) string {
	if table := innodb.TableName(name); table != "" {
		return table
	}
	suffix := path.Ext(name)
	if !slices.Contains(tableSuffixes, suffix) {
		return ""
	}
	name = strings.TrimSuffix(strings.TrimSuffix(name, suffix), ".ibd")
	return innodb.TableName(name + ".ibd")
}
