package innodb

import (
	"encoding/binary"
	"hash/adler32"
	"hash/crc32"
)

// noSum is what innodb_checksum_algorithm=none stored in place of a checksum.
const noSum = 0xDEADBEEF

// be32 and be16 read the big-endian fields of a page.
func be32(p []byte) uint32 { return binary.BigEndian.Uint32(p) }
func be16(p []byte) uint16 { return binary.BigEndian.Uint16(p) }

// sums computes the checksums of pages. It holds the CRC-32C table, so that pages find it without a global.
type sums struct{ table *crc32.Table }

func newSums() sums { return sums{crc32.MakeTable(crc32.Castagnoli)} }

// crc is CRC-32C, as Go computes it and InnoDB stores it.
func (s sums) crc(p []byte) uint32 { return crc32.Checksum(p, s.table) }

// plain is the sum of innodb_checksum_algorithm=crc32: everything but the sums themselves, the field that the flush LSN,
// a key version or an R-tree uses, the space id, and the last 8 bytes.
func (s sums) plain(p []byte) uint32 { return s.crc(p[4:26]) ^ s.crc(p[38:len(p)-8]) }

// zip is the sum of a page of ROW_FORMAT=COMPRESSED.
func (s sums) zip(p []byte) uint32 { return s.crc(p[4:16]) ^ s.crc(p[24:26]) ^ s.crc(p[34:]) }

// zipAdler is the sum of such a page under innodb_checksum_algorithm=innodb: Adler-32 over the same ranges as one, with
// 0 in place of 1 as the start.
func zipAdler(p []byte) uint32 {
	const mod = 65521
	var a, b uint32
	for _, part := range [...][]byte{p[4:16], p[24:26], p[34:]} {
		sum, n := adler32.Checksum(part), uint32(len(part))
		// Started from (a, b) instead of (1, 0), both halves grow: the low one by a-1, the high one by b + n(a-1).
		shift := (a + mod - 1) % mod
		b = (b + sum>>16 + n%mod*shift) % mod
		a = (a + sum&0xffff + mod - 1) % mod
	}
	return b<<16 | a
}

// fold is InnoDB's hash of bytes from the days before CRC-32C, without the masks that made it machine-independent then:
// uint32 wraps by itself.
func fold(p []byte) uint32 {
	const mask1, mask2 = 1463735687, 1653893711
	var h uint32
	for _, b := range p {
		h = ((((h ^ uint32(b) ^ mask2) << 8) + h) ^ mask1) + uint32(b)
	}
	return h
}

// legacyNew and legacyOld are what innodb_checksum_algorithm=innodb stored in the first and in the second field.
func legacyNew(p []byte) uint32 { return fold(p[4:26]) + fold(p[38:len(p)-8]) }
func legacyOld(p []byte) uint32 { return fold(p[:26]) }

// blank tells whether all of p is zero.
func blank(p []byte) bool {
	for len(p) >= 32 {
		if binary.NativeEndian.Uint64(p)|binary.NativeEndian.Uint64(p[8:])|
			binary.NativeEndian.Uint64(p[16:])|binary.NativeEndian.Uint64(p[24:]) != 0 {
			return false
		}
		p = p[32:]
	}
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}
