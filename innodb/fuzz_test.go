package innodb_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mbwrap/mbwrap/innodb"
	"github.com/mbwrap/mbwrap/xbstream"
)

// A bend is what fuzzing does to a file: 4 bytes of place, 1 of what.
func bendAll(data, bends []byte) {
	for ; len(bends) >= 5 && len(data) > 0; bends = bends[5:] {
		at := int(binary.BigEndian.Uint32(bends)) % len(data)
		switch b := bends[4]; b {
		case 0:
			clear(data[at:min(len(data), at+4096)])
		case 1:
			copy(data[at:], bends)
		default:
			data[at] ^= b
		}
	}
}

// FuzzFile damages a file of any layout and wants the checker, fed in random pieces, to agree with the model.
func FuzzFile(f *testing.F) {
	for shape := range uint8(len(allShapes)) {
		f.Add(uint64(shape), shape, uint8(0), uint8(6), []byte{0, 0, 0, 57, 2})
		f.Add(uint64(shape), shape, uint8(1), uint8(9), []byte{0, 0, 20, 0, 0, 0, 0, 9, 9, 1})
		f.Add(uint64(shape), shape, uint8(2), uint8(30), []byte{0, 0, 0, 0, 32, 0, 0, 200, 1, 64})
		f.Add(uint64(shape), shape, uint8(3), uint8(30), []byte{0, 0, 0, 9, 1})
	}
	f.Fuzz(func(t *testing.T, seed uint64, which, kind, pages uint8, bends []byte) {
		rng := rand.New(rand.NewPCG(seed, 2))
		s := allShapes[int(which)%len(allShapes)]
		n := min(int(pages)%40+1, 400<<10/s.size)
		strict := seed%5 == 0
		list := forms(s.kind)
		if seed%3 == 0 {
			list = nil
		}
		space := buildSpace(s, n, list, rng)
		cut := func(data []byte) []byte { return data[:len(data)-int(seed>>8%3)*int(seed>>16)%min(len(data), 5000)] }
		switch kind % 4 {
		case 0, 1:
			path, system := "d/t.ibd", kind%4 == 1
			if system {
				path, space = "ibdata1", systemFile(s, int(seed>>32%2)*int(seed>>33%500), n, rng)
			}
			bendAll(space, bends)
			space = cut(space)
			got, _ := run(t, innodb.Options{Strict: strict}, rng, chunks(path, 0, space, rng))
			if want := slowSpace(space, system, strict); !slices.Equal(offsets(got, path), want) {
				t.Errorf("%v: got bad pages at %v, the model says %v", s, offsets(got, path), want)
			}
		case 2:
			data := buildDelta(space, s.size, pick(n, seed%2 == 0))
			bendAll(data, bends)
			data = cut(data)
			zip := ""
			if s.kind == "zip" {
				zip = "zip"
			}
			parts := append(chunks("d/t.ibd.meta", 0, []byte(metaText(s, 7)), rng), chunks("d/t.ibd.delta", 1, data, rng)...)
			got, _ := run(t, innodb.Options{Strict: strict}, rng, parts)
			want, broken := slowDelta(data, s.size, zip, false, strict)
			at := offsets(got, "d/t.ibd.delta")
			if broken >= 0 {
				if len(at) == 0 {
					t.Fatalf("%v: got nothing, the model says the delta breaks at %d", s, broken)
				}
				at = at[:len(at)-1]
			}
			if !slices.Equal(at, want) {
				t.Errorf("%v: got bad pages at %v, the model says %v, broken at %d", s, at, want, broken)
			}
		case 3: // any bytes
			run(t, innodb.Options{Strict: strict}, rng, chunks("d/t.ibd", 0, bends, rng), chunks("ibdata1", 1, bends, rng),
				chunks("d/u.ibd.meta", 2, bends, rng), chunks("d/u.ibd.delta", 3, bends, rng), chunks("d/v.ibd.delta", 4, bends, rng))
		}
	})
}

// FuzzChunks feeds chunks of any kind in any order, as no stream has them: no panic, bounded memory.
func FuzzChunks(f *testing.F) {
	f.Add(uint64(1), []byte("PPPSsEPPRDPE0123456789"))
	f.Add(uint64(2), []byte("\x00\x10\x20\x30\x40\x50\x60\x70\x80\x90\xa0\xb0\xc0\xd0\xe0\xf0"))
	f.Fuzz(func(t *testing.T, seed uint64, ops []byte) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := allShapes[seed%uint64(len(allShapes))]
		data := buildSpace(s, 8, forms(s.kind), rng)
		paths := []string{"d/t.ibd", "d/u.ibd.delta", "d/u.ibd.meta", "ibdata1", "undo001", "d/v.new", "d/w.MAD", "ibdata1.delta"}
		types := []xbstream.Type{xbstream.TypePayload, xbstream.TypePayload, xbstream.TypeSeek, xbstream.TypeSparse, xbstream.TypeEnd, xbstream.TypeRename}
		c := innodb.NewChecker(innodb.Options{Strict: seed%2 == 0, OnBad: func(p innodb.Page) { _ = fmt.Sprint(p) }})
		c.SetLimit(1 << 20)
		feeder := feeder{c: c, rng: rng}
		for i, op := range ops[:min(len(ops), 200)] {
			p := part{path: paths[op%8], file: int(op>>3) % 5, typ: types[int(op>>5+op)%len(types)]}
			p.offset = []int64{0, 0, int64(i) << 12, 1 << 16, int64(rng.IntN(1 << 20)), xbstream.MaxOffset - 9}[rng.IntN(6)]
			if p.file == 4 {
				p.file = -1
			}
			from := rng.IntN(len(data))
			switch p.typ {
			case xbstream.TypePayload:
				p.data = data[from:]
			case xbstream.TypeSparse:
				p.data = data[from:]
				half := uint32(len(p.data) / 2)
				p.ext = []xbstream.Extent{{Skip: rng.Uint32() >> rng.IntN(32), Len: half}, {}, {Skip: 7, Len: uint32(len(p.data)) - half}, {Skip: rng.Uint32()}}
			}
			feeder.feed(p)
			if held := c.Held(); held > 1<<20 {
				t.Fatalf("got %d bytes held, want at most 1 MiB", held)
			}
		}
		c.Close()
		if got := c.Held(); got != 0 {
			t.Errorf("got %d bytes held after Close, want 0", got)
		}
	})
}
