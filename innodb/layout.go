package innodb

import "math/bits"

// Sizes of pages in bytes. Those below minPlain are of ROW_FORMAT=COMPRESSED only.
const (
	minPage  = 1 << 10
	minPlain = 4 << 10
	midPage  = 16 << 10 // the default, and the largest of ROW_FORMAT=COMPRESSED
	maxPage  = 64 << 10
)

// A format is one of the three ways in which a page keeps its checksum.
type format uint8

const (
	formatFull  format = iota // innodb_checksum_algorithm=full_crc32, the default since 10.5: one sum at the end
	formatPlain               // older: a sum at both ends
	formatZip                 // ROW_FORMAT=COMPRESSED: a sum at the front. Such files never have formatFull
)

func (f format) String() string { return [...]string{"full_crc32", "crc32", "compressed crc32"}[f] }

// A layout says how a file is cut into pages and how these are checked. It is decided per file: a server that was
// upgraded has files of all formats.
type layout struct {
	size   int // of a page in the file, in bytes
	format format
}

// flagsAt is where page 0 of a tablespace has its flags, and headSize how much of a page must be there to read them.
const (
	flagsAt  = 54
	headSize = 64
)

// claimed returns the layout that the flags of page 0 tell. It is not to be believed before a page has kept its rule.
func claimed(page0 []byte) (layout, bool) {
	f := be32(page0[flagsAt:])
	if f&0x10 != 0 {
		s := f & 15
		return layout{512 << s, formatFull}, s >= 3 && s <= 7
	}
	if z := f >> 1 & 15; z != 0 {
		return layout{512 << z, formatZip}, z <= 5
	}
	s := f >> 6 & 15
	if s == 0 {
		return layout{midPage, formatPlain}, true
	}
	return layout{512 << s, formatPlain}, s >= 3 && s <= 7
}

// layouts are all there are, the likely ones first.
func layouts() []layout {
	all := []layout{{midPage, formatFull}, {midPage, formatPlain}}
	for size := minPage; size <= maxPage; size <<= 1 {
		if size <= midPage {
			all = append(all, layout{size, formatZip})
		}
		if size >= minPlain && size != midPage {
			all = append(all, layout{size, formatFull}, layout{size, formatPlain})
		}
	}
	return all
}

// copies tells whether page no of the system tablespace belongs to the doublewrite buffer, that is to extents 1 and 2.
// What stands there are copies of other pages, old ones too.
func (l layout) copies(no int64) bool {
	extent := int64(max(1<<20/l.size, 64))
	return no >= extent && no < 3*extent
}

// pageSize tells whether n may be the size of a page.
func pageSize(n int) bool { return n >= minPage && n <= maxPage && bits.OnesCount(uint(n)) == 1 }
