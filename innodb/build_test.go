package innodb_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/innodb"
	"github.com/mbwrap/mbwrap/xbstream"
)

// A pageSpec says which page to build.
type pageSpec struct {
	shape
	no    int
	space uint32
	flags uint32 // page 0 only
	// form is "" for a plain page, or "legacy", "lsn twice", "none", "encrypted", "packed", "packed encrypted",
	// "foreign packed", "foreign encrypted".
	form string
}

// flagsOf returns the flags that page 0 has in files of this shape.
func flagsOf(s shape) uint32 {
	exponent := uint32(0)
	for size := 512; size < s.size; size <<= 1 {
		exponent++
	}
	switch {
	case s.kind == "full":
		return 0x10 | exponent
	case s.kind == "zip":
		return 0x21 | exponent<<1
	case s.size == 16384:
		return 0x21
	}
	return 0x21 | exponent<<6
}

// build returns a page that keeps its rule, with a body of random bytes.
func build(spec pageSpec, rng *rand.Rand) []byte {
	p := make([]byte, spec.size)
	for i := 38; i < len(p); i += 3 {
		p[i] = byte(rng.Uint32())
	}
	put32(p[4:], uint32(spec.no))
	put32(p[8:], uint32(spec.no-1))
	put32(p[12:], uint32(spec.no+1))
	put32(p[20:], rng.Uint32()|1)
	put16(p[24:], 17855)
	put32(p[34:], spec.space)
	if spec.no == 0 {
		put16(p[24:], 8)
		put32(p[54:], spec.flags)
	}
	end := len(p)
	switch spec.kind {
	case "full":
		sealFull(p, spec.form)
	case "zip":
		sum := func() uint32 { return slowCRC(p[4:16]) ^ slowCRC(p[24:26]) ^ slowCRC(p[34:]) }
		switch spec.form {
		case "legacy":
			put32(p, slowAdler(append(append(append([]byte(nil), p[4:16]...), p[24:26]...), p[34:]...)))
		case "none":
			put32(p, 0xDEADBEEF)
		case "encrypted":
			put32(p[26:], 1)
			put32(p[30:], sum())
			put32(p, rng.Uint32())
		default:
			put32(p, sum())
		}
	default:
		copy(p[end-4:], p[20:24])
		sealPlain(p, spec.form, rng)
	}
	return p
}

func sealFull(p []byte, form string) {
	end := len(p)
	copy(p[end-8:], p[20:24])
	switch form {
	case "encrypted":
		put32(p, 1)
		put32(p[end-8:], 12345)
	case "packed":
		size := end / 4
		put16(p[24:], 0x8000|size/256)
		clear(p[size:])
		end = size
	}
	put32(p[end-4:], slowCRC(p[:end-4]))
}

func sealPlain(p []byte, form string, rng *rand.Rand) {
	end := len(p)
	sum := func() uint32 { return slowCRC(p[4:26]) ^ slowCRC(p[38:end-8]) }
	switch form {
	case "legacy":
		put32(p, slowFold(p[4:26])+slowFold(p[38:end-8]))
		put32(p[end-8:], slowFold(p[:26]))
	case "lsn twice":
		put32(p, slowFold(p[4:26])+slowFold(p[38:end-8]))
		copy(p[end-8:], p[16:20])
	case "none":
		put32(p, 0xDEADBEEF)
		put32(p[end-8:], 0xDEADBEEF)
	case "encrypted":
		put32(p[26:], 1)
		put32(p[30:], sum())
		put32(p, rng.Uint32())
	case "packed":
		put32(p, 0xDEADBEEF)
		put16(p[24:], 34354)
		put16(p[32:], 1)
		put16(p[38:], end/4)
		clear(p[40+end/4:])
	case "packed encrypted":
		put16(p[24:], 37401)
		put32(p[26:], 1)
		put16(p[38:], end/4)
		put16(p[40:], 2)
		clear(p[42+end/4:])
	case "foreign packed":
		put16(p[24:], 14)
		p[26], p[27] = 1, 2
	case "foreign encrypted":
		put16(p[24:], 15)
		put16(p[26:], 17855)
	default:
		put32(p, sum())
		copy(p[end-8:], p[:4])
	}
}

// forms are those that files of each kind may have, but for page 0, which is always plain.
func forms(kind string) []string {
	switch kind {
	case "full":
		return []string{"", "encrypted", "packed"}
	case "zip":
		return []string{"", "encrypted", "legacy", "none"}
	}
	return []string{"", "encrypted", "legacy", "lsn twice", "none", "packed", "packed encrypted", "foreign packed", "foreign encrypted"}
}

// buildSpace returns a tablespace of n pages with one empty page among them, whose forms take turns.
func buildSpace(s shape, n int, list []string, rng *rand.Rand) []byte {
	var data []byte
	for no := range n {
		spec := pageSpec{shape: s, no: no, space: 7, flags: flagsOf(s)}
		if no > 0 && len(list) > 0 {
			spec.form = list[no%len(list)]
		}
		p := build(spec, rng)
		if no == 5 {
			clear(p)
		}
		data = append(data, p...)
	}
	return data
}

// buildDelta returns a delta of the given pages of a tablespace.
func buildDelta(data []byte, size int, numbers []int) []byte {
	var out []byte
	for {
		n := min(len(numbers), size/4-1)
		index := make([]byte, size)
		copy(index, "xtra")
		if n == len(numbers) {
			copy(index, "XTRA")
		}
		for i, no := range numbers[:n] {
			put32(index[4*i+4:], uint32(no))
		}
		if n < size/4-1 {
			put32(index[4*n+4:], 0xFFFFFFFF)
		}
		out = append(out, index...)
		for _, no := range numbers[:n] {
			out = append(out, data[no*size:(no+1)*size]...)
		}
		if numbers = numbers[n:]; len(numbers) == 0 {
			return out
		}
	}
}

// metaText is the meta file of a delta.
func metaText(s shape, space int) string {
	zip := 0
	if s.kind == "zip" {
		zip = s.size
	}
	return fmt.Sprintf("page_size = %d\nzip_size = %d \nspace_id = %d\n", s.size, zip, space)
}

// A part is a chunk to be fed to a checker without the stream around it.
type part struct {
	path   string
	file   int
	typ    xbstream.Type
	offset int64
	data   []byte
	ext    []xbstream.Extent
}

// A feeder feeds chunks to a checker, cut at random, and keeps count of the place in the stream.
type feeder struct {
	c   *innodb.Checker
	rng *rand.Rand // nil: payloads whole
	raw int64
}

func (f *feeder) feed(p part) {
	typ := p.typ
	if typ == 0 {
		typ = xbstream.TypePayload
	}
	f.raw += 50
	h := xbstream.Header{Type: typ, Path: p.path, Offset: p.offset, Size: int64(len(p.data)), Extents: p.ext}
	f.c.Chunk(&xbstream.Chunk{Header: h, Start: f.raw - 50, Data: f.raw, File: p.file})
	for rest := p.data; len(rest) > 0; {
		n := len(rest)
		if f.rng != nil && n > 1 {
			if n = 1 + f.rng.IntN(min(n, 90_000)); f.rng.IntN(8) == 0 {
				n = min(len(rest), 1+f.rng.IntN(60))
			}
		}
		f.c.Data(rest[:n:n])
		rest = rest[n:]
	}
	f.raw += int64(len(p.data))
}

// chunks cuts a file into payload chunks of random sizes, and its end.
func chunks(path string, file int, data []byte, rng *rand.Rand) []part {
	var parts []part
	for at := 0; at < len(data); {
		n := len(data) - at
		if rng != nil {
			n = min(n, 1+rng.IntN(200_000))
		}
		parts = append(parts, part{path: path, file: file, offset: int64(at), data: data[at : at+n]})
		at += n
	}
	return append(parts, part{path: path, file: file, typ: xbstream.TypeEnd})
}

// run feeds whole files, in order, and returns what is reported.
func run(t testing.TB, o innodb.Options, rng *rand.Rand, lists ...[]part) ([]innodb.Page, innodb.Stats) {
	t.Helper()
	var pages []innodb.Page
	o.OnBad = func(p innodb.Page) { pages = append(pages, p) }
	f := &feeder{c: innodb.NewChecker(o), rng: rng}
	for n := 0; n < len(lists); {
		i := 0
		if rng != nil {
			i = rng.IntN(len(lists))
		} else {
			i = n
		}
		if len(lists[i]) == 0 {
			if n = 0; rng != nil {
				lists = append(lists[:i:i], lists[i+1:]...)
			}
			if rng == nil {
				for n < len(lists) && len(lists[n]) == 0 {
					n++
				}
			}
			continue
		}
		f.feed(lists[i][0])
		lists[i] = lists[i][1:]
	}
	f.c.Close()
	if got := f.c.Held(); got != 0 {
		t.Errorf("got %d bytes held after Close, want 0", got)
	}
	s := f.c.Stats()
	if s.Bad != int64(len(pages)) {
		t.Errorf("got %d bad pages in Stats, want the %d reported", s.Bad, len(pages))
	}
	if s.Empty+s.Unchecked+s.Bad > s.Pages {
		t.Errorf("got %+v, want no more than all pages", s)
	}
	return pages, s
}

// offsets returns where the pages stand.
func offsets(pages []innodb.Page, path string) []int {
	var at []int
	for _, p := range pages {
		if p.Path == path {
			at = append(at, int(p.Offset))
		}
	}
	return at
}

// message returns the first report's text.
func message(pages []innodb.Page) string {
	if len(pages) == 0 {
		return ""
	}
	return strings.TrimSpace(pages[0].Message)
}
