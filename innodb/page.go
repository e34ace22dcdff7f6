package innodb

import "fmt"

// A verdict is what can be said about a page.
type verdict uint8

const (
	sound     verdict = iota // keeps its rule
	empty                    // all zero: allocated in the file and never written
	unchecked                // has no checksum that can be computed from the page as it is stored
	bad
)

// A fault says why a page is bad. Its text is made only when someone wants it.
type fault struct {
	rule             string
	stored, computed uint32
}

func (f fault) String() string {
	switch f.rule {
	case ruleNumber:
		return fmt.Sprintf("%s: stored %d, expected %d", f.rule, f.stored, f.computed)
	case ruleSize:
		return fmt.Sprintf("%s: stored %d, must be above 0 and below %d", f.rule, f.stored, f.computed)
	case ruleLSN:
		return fmt.Sprintf("%s: 0x%08x at the start, 0x%08x at the end", f.rule, f.stored, f.computed)
	case ruleMark, ruleFlags:
		return fmt.Sprintf("%s 0x%08x", f.rule, f.stored)
	case ruleUnlisted, ruleCut:
		return f.rule
	}
	return fmt.Sprintf("%s: stored 0x%08x, computed 0x%08x", f.rule, f.stored, f.computed)
}

// Rules that a page may break. A broken one shows what was stored and what was computed, if there is such a thing.
const (
	ruleFull     = "full_crc32 checksum"
	rulePlain    = "crc32 checksum"
	rulePlain2   = "crc32 checksum at the end"
	ruleZip      = "crc32 checksum of a compressed page"
	ruleCrypt    = "checksum of the encrypted page"
	ruleLSN      = "log sequence number (low half) differs"
	ruleNumber   = "page number"
	ruleSize     = "size of a page_compressed page"
	ruleFlags    = "no checksum rule fits this page 0; flags"
	ruleMark     = "index of the delta: unexpected mark"
	ruleUnlisted = "a page that the index of the delta does not list"
	ruleCut      = "the delta ends before all pages of its index came"
)

// Page types that say how the rest of a page is stored.
const (
	typeCompressed          = 34354 // page_compressed in the older formats
	typeCompressedEncrypted = 37401 // the same, encrypted
	typeForeignCompressed   = 14    // MySQL's transparent compression
	typeForeignEncrypted    = 15    // MySQL's encryption; 16 with compression, 17 of an R-tree
	typeForeignRTree        = 17
	fullCompressed          = 0x8000 // in full_crc32: page_compressed, and the rest of the type is the size in 256 bytes
)

// A judge knows the rules of pages. Sources of the rules: MariaDB's buf0buf.cc, buf0checksum.cc, page0zip.cc,
// fil0crypt.cc and fil0pagecompress.cc; they were run against real files of each kind.
type judge struct {
	sums
	strict bool // accept only CRC-32C
}

// anyNumber tells judge.page not to compare the page's number.
const anyNumber = -1

// page judges p, which is one whole page of layout l with number no in its tablespace.
func (j judge) page(l layout, p []byte, no int64) (verdict, fault) {
	if p[0]|p[1]|p[2]|p[3] == 0 && blank(p) {
		return empty, fault{}
	}
	v, f := bad, fault{}
	switch l.format {
	case formatFull:
		v, f = j.full(p)
	case formatZip:
		v, f = j.zipped(p, no)
	default:
		v, f = j.older(p, no)
	}
	if v != bad && v != empty && no >= 0 && int64(be32(p[4:])) != no {
		return bad, fault{ruleNumber, be32(p[4:]), uint32(no)}
	}
	return v, f
}

// full judges a page of formatFull. The sum covers encrypted and compressed pages as they are stored.
func (j judge) full(p []byte) (verdict, fault) {
	size, packed := len(p), be16(p[24:])
	if packed&fullCompressed != 0 {
		size = int(packed&^fullCompressed) << 8
		if size == 0 || size >= len(p) {
			return bad, fault{ruleSize, uint32(size), uint32(len(p))}
		}
	}
	stored, computed := be32(p[size-4:]), j.crc(p[:size-4])
	if stored != computed {
		return bad, fault{ruleFull, stored, computed}
	}
	if packed&fullCompressed == 0 && be32(p) == 0 && be32(p[20:]) != be32(p[size-8:]) {
		return bad, fault{ruleLSN, be32(p[20:]), be32(p[size-8:])}
	}
	return sound, fault{}
}

// zipped judges a page of ROW_FORMAT=COMPRESSED.
func (j judge) zipped(p []byte, no int64) (verdict, fault) {
	stored, computed := be32(p), j.zip(p)
	switch {
	case stored == computed:
		return sound, fault{}
	case !j.strict && (stored == noSum || stored == zipAdler(p)):
		return sound, fault{}
	case no == 0 || be32(p[26:]) == 0:
		return bad, fault{ruleZip, stored, computed}
	}
	sealed := be32(p[30:])
	if sealed == computed || !j.strict && (sealed == noSum || sealed == zipAdler(p)) {
		return sound, fault{}
	}
	return bad, fault{ruleZip, stored, computed}
}

// older judges a page of formatPlain.
func (j judge) older(p []byte, no int64) (verdict, fault) {
	computed := j.plain(p)
	first, second := be32(p), be32(p[len(p)-8:])
	sameLSN := be32(p[20:]) == be32(p[len(p)-4:])
	if first == computed && second == computed && sameLSN {
		return sound, fault{}
	}
	if noSumOfItsOwn(p) {
		return unchecked, fault{}
	}
	if sameLSN && !j.strict && legacy(p, first, second) {
		return sound, fault{}
	}
	if no != 0 && be32(p[26:]) != 0 {
		sealed := be32(p[30:])
		if sealed == computed || !j.strict && (sealed == noSum || sealed == legacyNew(p)) {
			return sound, fault{}
		}
		if first != computed && second != computed {
			return bad, fault{ruleCrypt, sealed, computed}
		}
	}
	switch {
	case first != computed:
		return bad, fault{rulePlain, first, computed}
	case second != computed:
		return bad, fault{rulePlain2, second, computed}
	}
	return bad, fault{ruleLSN, be32(p[20:]), be32(p[len(p)-4:])}
}

// legacy tells whether the two sums are those of servers before CRC-32C, in any of the mixtures they left behind: the
// oldest stored the log sequence number twice and no sum at the end. A page without a log sequence number was never
// written: a stray bit in it is no sum.
func legacy(p []byte, first, second uint32) bool {
	if blank(p[16:24]) {
		return false
	}
	if second != noSum && second != be32(p[16:]) && second != legacyOld(p) {
		return false
	}
	return first == 0 || first == noSum || first == legacyNew(p)
}

// noSumOfItsOwn tells whether p is a page of formatPlain that carries no checksum of what is stored: page_compressed, and
// what MySQL compresses or encrypts. Their fixed fields are looked at, so that a damaged type alone does not pass.
func noSumOfItsOwn(p []byte) bool {
	switch t := be16(p[24:]); t {
	case typeCompressed:
		size := int(be16(p[38:]))
		return be32(p) == noSum && blank(p[26:32]) && packer(be16(p[32:])) && size > 0 && size <= len(p)-40
	case typeCompressedEncrypted:
		size := int(be16(p[38:]))
		return be32(p[26:]) != 0 && packer(be16(p[40:])) && size > 0 && size <= len(p)-42
	case typeForeignCompressed: // version, algorithm
		return p[26] >= 1 && p[26] <= 3 && p[27] >= 1 && p[27] <= 4
	default:
		return t >= typeForeignEncrypted && t <= typeForeignRTree && be16(p[26:]) != 0
	}
}

// packer tells whether n is the number of a compression algorithm: zlib, lz4, lzo, lzma, bzip2, snappy.
func packer(n uint16) bool { return n >= 1 && n <= 6 }
