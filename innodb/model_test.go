package innodb_test

import (
	"bytes"
	"slices"
)

// The model is a second checker, slow and simple: it has whole files in memory, sums byte by byte, and was written from the
// list of rules rather than from the checker.

// slowTable has the CRC-32C of each byte, bit by bit, so that the tests do not lean on the tables that the checker uses.
var slowTable = func() (table [256]uint32) {
	for i := range table {
		crc := uint32(i)
		for range 8 {
			crc = crc>>1 ^ 0x82F63B78&-(crc&1)
		}
		table[i] = crc
	}
	return table
}()

// slowCRC is CRC-32C byte by byte.
func slowCRC(p []byte) uint32 {
	crc := ^uint32(0)
	for _, b := range p {
		crc = crc>>8 ^ slowTable[byte(crc)^b]
	}
	return ^crc
}

// slow32 reads a big-endian number.
func slow32(p []byte) uint32 {
	return uint32(p[0])<<24 | uint32(p[1])<<16 | uint32(p[2])<<8 | uint32(p[3])
}

func put32(p []byte, n uint32) {
	p[0], p[1], p[2], p[3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
}

func slow16(p []byte) int { return int(p[0])<<8 | int(p[1]) }

func put16(p []byte, n int) { p[0], p[1] = byte(n>>8), byte(n) }

func zeros(p []byte) bool { return !slices.ContainsFunc(p, func(b byte) bool { return b != 0 }) }

// slowFold is InnoDB's old hash with 64-bit arithmetic cut back to 32 bits at each step.
func slowFold(p []byte) uint32 {
	h := uint64(0)
	for _, b := range p {
		a := (h ^ uint64(b) ^ 1653893711) & 0xFFFFFFFF
		a = (a << 8) & 0xFFFFFFFF
		h = ((((a + h) & 0xFFFFFFFF) ^ 1463735687) + uint64(b)) & 0xFFFFFFFF
	}
	return uint32(h)
}

// slowAdler is Adler-32 that starts from zero.
func slowAdler(p []byte) uint32 {
	var a, b uint32
	for _, c := range p {
		a = (a + uint32(c)) % 65521
		b = (b + a) % 65521
	}
	return b<<16 | a
}

// A shape is the model's layout: size of a page, and "full", "plain" or "zip".
type shape struct {
	size int
	kind string
}

// allShapes is in the order in which the checker tries them.
var allShapes = func() []shape {
	all := []shape{{16384, "full"}, {16384, "plain"}}
	for _, size := range []int{1024, 2048, 4096, 8192, 16384, 32768, 65536} {
		if size <= 16384 {
			all = append(all, shape{size, "zip"})
		}
		if size >= 4096 && size != 16384 {
			all = append(all, shape{size, "full"}, shape{size, "plain"})
		}
	}
	return all
}()

// slowShape reads flags.
func slowShape(page0 []byte) (shape, bool) {
	flags := slow32(page0[54:])
	field := func(from, bits int) int { return int(flags>>from) & (1<<bits - 1) }
	if field(4, 1) == 1 {
		return shape{512 << field(0, 4), "full"}, field(0, 4) >= 3 && field(0, 4) <= 7
	}
	if z := field(1, 4); z > 0 {
		return shape{512 << z, "zip"}, z <= 5
	}
	if field(6, 4) == 0 {
		return shape{16384, "plain"}, true
	}
	return shape{512 << field(6, 4), "plain"}, field(6, 4) >= 3 && field(6, 4) <= 7
}

// slowPage judges a page: "sound", "empty", "none" (no checksum) or "bad". no < 0 leaves the number out.
func slowPage(s shape, p []byte, no int, strict bool) string {
	if zeros(p) {
		return "empty"
	}
	verdict := "bad"
	switch s.kind {
	case "full":
		verdict = slowFull(p)
	case "zip":
		verdict = slowZip(p, no, strict)
	case "plain":
		verdict = slowPlain(p, no, strict)
	}
	if verdict != "bad" && no >= 0 && slow32(p[4:]) != uint32(no) {
		return "bad"
	}
	return verdict
}

func slowFull(p []byte) string {
	size := len(p)
	if t := slow16(p[24:]); t >= 0x8000 {
		size = (t - 0x8000) * 256
		if size == 0 || size >= len(p) {
			return "bad"
		}
	}
	if slow32(p[size-4:]) != slowCRC(p[:size-4]) {
		return "bad"
	}
	if size == len(p) && zeros(p[:4]) && !bytes.Equal(p[20:24], p[size-8:size-4]) {
		return "bad"
	}
	return "sound"
}

func slowZip(p []byte, no int, strict bool) string {
	crc := slowCRC(p[4:16]) ^ slowCRC(p[24:26]) ^ slowCRC(p[34:])
	good := func(sum uint32) bool {
		return sum == crc || !strict && (sum == 0xDEADBEEF || sum == slowAdler(bytes.Join([][]byte{p[4:16], p[24:26], p[34:]}, nil)))
	}
	if good(slow32(p)) || no != 0 && !zeros(p[26:30]) && good(slow32(p[30:])) {
		return "sound"
	}
	return "bad"
}

func slowPlain(p []byte, no int, strict bool) string {
	end := len(p)
	crc := slowCRC(p[4:26]) ^ slowCRC(p[38:end-8])
	first, second := slow32(p), slow32(p[end-8:])
	newSum, oldSum := slowFold(p[4:26])+slowFold(p[38:end-8]), slowFold(p[:26])
	t, keyVersion := slow16(p[24:]), slow32(p[26:])
	algorithm := func(n int) bool { return n >= 1 && n <= 6 }
	switch {
	case t == 34354 && first == 0xDEADBEEF && zeros(p[26:32]) && algorithm(slow16(p[32:])) && slow16(p[38:]) > 0 && slow16(p[38:])+40 <= end,
		t == 37401 && keyVersion != 0 && algorithm(slow16(p[40:])) && slow16(p[38:]) > 0 && slow16(p[38:])+42 <= end,
		t == 14 && p[26] >= 1 && p[26] <= 3 && p[27] >= 1 && p[27] <= 4,
		t >= 15 && t <= 17 && slow16(p[26:]) != 0:
		if !(first == crc && second == crc && bytes.Equal(p[20:24], p[end-4:])) {
			return "none"
		}
	}
	if bytes.Equal(p[20:24], p[end-4:]) {
		if first == crc && second == crc {
			return "sound"
		}
		old1 := first == 0 || first == 0xDEADBEEF || first == newSum
		old2 := second == 0xDEADBEEF || second == slow32(p[16:]) || second == oldSum
		if !strict && old1 && old2 && !zeros(p[16:24]) {
			return "sound"
		}
	}
	if sealed := slow32(p[30:]); no != 0 && keyVersion != 0 && (sealed == crc || !strict && (sealed == 0xDEADBEEF || sealed == newSum)) {
		return "sound"
	}
	return "bad"
}

// slowSpace returns the offsets of the bad pages of a whole file.
func slowSpace(data []byte, system, strict bool) (bad []int) {
	s, start, from := shape{}, 0, -1
	adopt := func(to shape, first, at int) { s, start, from = to, first, at }
	at := 0
	if len(data) < 64 {
		return nil
	}
	claim, ok := slowShape(data)
	ok = ok && !(system && !zeros(data[4:8])) && !(system && !zeros(data[34:38]))
	first := "bad"
	if ok && len(data) >= claim.size {
		first = slowPage(claim, data[:claim.size], 0, strict)
	}
	window := 128 << 10
	if first == "empty" {
		window = 64 << 10
	}
	head := data[:min(len(data), window)]
	if first == "sound" {
		adopt(claim, 0, 0)
	} else if to, n, found := slowEvidence(head, 0, system); found {
		adopt(to, n, 0)
	} else if first == "bad" && ok && len(head) >= claim.size {
		adopt(claim, 0, 0)
	} else if !ok && !system && len(head) >= 4096 {
		bad = append(bad, 0)
	}
	for at = len(head); from < 0 && at < len(data); at += 64 << 10 {
		if to, n, found := slowEvidence(data[at:min(len(data), at+64<<10)], at, system); found {
			adopt(to, n, at)
		}
	}
	if from < 0 {
		return bad
	}
	extent := max(1<<20/s.size, 64)
	for at = from; at+s.size <= len(data); at += s.size {
		no, expect := at/s.size+start, at/s.size
		if system && no >= extent && no < 3*extent {
			continue
		}
		if system && no != 0 {
			expect = -1
		}
		p := data[at : at+s.size]
		if system && at == 0 && zeros(p[:26]) && zeros(p[34:]) {
			continue
		}
		if slowPage(s, p, expect, strict) == "bad" {
			bad = append(bad, at)
		}
	}
	return bad
}

// slowEvidence finds the shape that a page of p shows, which stands at position at.
func slowEvidence(p []byte, at int, system bool) (shape, int, bool) {
	for _, want := range []string{"sound", "none"} {
		for _, s := range allShapes {
			extent := max(1<<20/s.size, 64)
			for off := 0; off+s.size <= len(p); off += s.size {
				no := (at + off) / s.size
				start := int(slow32(p[off+4:])) - no
				if !system && start != 0 || start < 0 || system && no >= extent && no < 3*extent {
					continue
				}
				if slowPage(s, p[off:off+s.size], -1, true) == want {
					return s, start, true
				}
			}
		}
	}
	return shape{}, 0, false
}

// slowDelta returns the offsets of the bad pages of a whole delta whose pages have this size, and where its structure
// breaks, -1 if it does not.
func slowDelta(data []byte, size int, kind string, system, strict bool) (bad []int, broken int) {
	at, last := 0, false
	for len(data) > 0 && !last {
		if len(data)-at < size {
			return bad, at
		}
		index := data[at : at+size]
		mark := string(index[:4])
		if mark != "xtra" && mark != "XTRA" {
			return bad, at
		}
		last = mark == "XTRA"
		at += size
		for slot := 1; slot < size/4; slot++ {
			no := slow32(index[4*slot:])
			if no == 0xFFFFFFFF {
				break
			}
			if len(data)-at < size {
				return bad, at
			}
			var verdict string
			verdict, kind = slowDeltaPage(shape{size, kind}, data[at:at+size], int(no), system, strict)
			if verdict == "bad" {
				bad = append(bad, at)
			}
			at += size
		}
	}
	if at < len(data) {
		return bad, at
	}
	return bad, -1
}

// slowDeltaPage judges a page of a delta and returns the kind as far as it is known then.
func slowDeltaPage(s shape, p []byte, no int, system, strict bool) (string, string) {
	extent := max(1<<20/s.size, 64)
	if system && no >= extent && no < 3*extent {
		return "none", s.kind
	}
	if system {
		no = -1
	}
	if s.kind != "" {
		return slowPage(s, p, no, strict), s.kind
	}
	for _, kind := range []string{"full", "plain", "zip"} {
		to := shape{s.size, kind}
		switch v := slowPage(to, p, no, strict); {
		case v == "sound" && slowPage(to, p, -1, true) == "sound":
			return v, kind
		case v != "bad":
			return v, ""
		}
	}
	return "bad", ""
}
