package gendata

import (
	"encoding/binary"
	"hash/crc32"
)

// Geometry of the pages: 16 KiB in the full_crc32 format, MariaDB's default since 10.5.
const (
	pageSize     = 16 << 10
	pageBody     = 120                // after the file and page headers and the two system records
	pageFull     = pageSize * 15 / 16 // the server leaves a sixteenth free
	maxPool      = 2048               // distinct pages: 32 MiB, more than any compressor here looks back
	typeIndex    = 17855              // FIL_PAGE_INDEX
	typeSpace    = 8                  // FIL_PAGE_TYPE_FSP_HDR
	spaceFlags   = 0x15               // full_crc32, 16 KiB
	firstLSN     = 45_419
	trailerStart = pageSize - 8
)

// pagePool holds pages full of rows of one kind, to be stamped with a place in a tablespace.
type pagePool struct {
	count int
	pages []byte
	table *crc32.Table
}

// newPagePool fills a pool of so many pages, at most maxPool, with rows, table after table in proportion to their rows.
func newPagePool(kind Kind, count int64, seed uint64) *pagePool {
	tables := streamTables(kind)
	total := 0
	for _, t := range tables {
		total += t.rows
	}
	count = max(1, min(count, maxPool))
	p := &pagePool{count: int(count), pages: make([]byte, count*pageSize), table: crc32.MakeTable(crc32.Castagnoli)}
	f := pageFiller{pool: p, row: row{w: newWords(), binary: true}}
	for _, t := range tables {
		f.fill(&t, seed, (p.count*t.rows+total-1)/total)
	}
	return p
}

// streamTables returns the tables whose rows fill the pool: the large ones.
func streamTables(kind Kind) []table {
	if kind == Sysbench {
		return sysbenchTables(4 << 30)[:1]
	}
	var large []table
	for _, t := range tpccTables(4 << 30) {
		if t.rows > itemsPerDesign {
			large = append(large, t)
		}
	}
	return large
}

// pageFiller writes rows into the pages of a pool, one page after the other.
type pageFiller struct {
	pool *pagePool
	page int // the next one
	row  row
}

// fill makes up to n pages of rows of t, as far as the pool has room.
func (f *pageFiller) fill(t *table, seed uint64, n int) {
	i := 0
	for range min(n, f.pool.count-f.page) {
		page := f.pool.pages[f.page*pageSize:][:pageSize]
		i = f.fillPage(page, t, seed, i)
		f.page++
	}
}

// fillPage fills a page with rows from i on and returns the first that had no room. A record has the parts of InnoDB's:
// header, transaction number, roll pointer, fields.
func (f *pageFiller) fillPage(page []byte, t *table, seed uint64, i int) int {
	at, slot := pageBody, trailerStart
	for count := 0; ; count++ {
		f.row.buf = f.row.buf[:0]
		t.appendRow(&f.row, seed, i%t.rows)
		if at+18+len(f.row.buf) > pageFull-2*(count/6+1) {
			binary.BigEndian.PutUint16(page[54:], uint16(count))
			return i
		}
		head := page[at:]
		head[1] = byte(count % 6)
		binary.BigEndian.PutUint16(head[2:], uint16(count<<3))
		binary.BigEndian.PutUint16(head[4:], uint16(18+len(f.row.buf)))
		binary.BigEndian.PutUint32(head[8:], uint32(i/1000+500))
		head[12] = 0x80
		binary.BigEndian.PutUint32(head[13:], uint32(i))
		if count%6 == 5 {
			slot -= 2
			binary.BigEndian.PutUint16(page[slot:], uint16(at))
		}
		at += 18 + copy(page[at+18:], f.row.buf)
		i++
	}
}

// stamp copies page n of the pool to dst as page number of a tablespace.
func (p *pagePool) stamp(dst []byte, n int, number, space uint32) {
	copy(dst, p.pages[n%p.count*pageSize:][:pageSize])
	lsn := uint64(firstLSN) + uint64(number)*977
	binary.BigEndian.PutUint32(dst[4:], number)
	binary.BigEndian.PutUint32(dst[8:], number-1)
	binary.BigEndian.PutUint32(dst[12:], number+1)
	binary.BigEndian.PutUint64(dst[16:], lsn)
	binary.BigEndian.PutUint16(dst[24:], typeIndex)
	binary.BigEndian.PutUint32(dst[34:], space)
	if number == 0 {
		spaceHeader(dst, space)
	}
	p.seal(dst, lsn)
}

// spaceHeader makes dst the first page of a tablespace.
func spaceHeader(dst []byte, space uint32) {
	clear(dst[26:34])
	clear(dst[38:])
	binary.BigEndian.PutUint16(dst[24:], typeSpace)
	binary.BigEndian.PutUint32(dst[38:], space)
	binary.BigEndian.PutUint32(dst[54:], spaceFlags)
}

// seal writes the trailer: the low half of the log position and the checksum of all before it.
func (p *pagePool) seal(page []byte, lsn uint64) {
	binary.BigEndian.PutUint32(page[trailerStart:], uint32(lsn))
	binary.BigEndian.PutUint32(page[pageSize-4:], crc32.Checksum(page[:pageSize-4], p.table))
}
