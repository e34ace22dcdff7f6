package innodb_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/mbwrap/mbwrap/innodb"
	"github.com/mbwrap/mbwrap/xbstream"
)

// TestSparse: a file whose zeros are holes, as another tool writes it, gets the verdicts of the same file without holes.
func TestSparse(t *testing.T) {
	for seed := range uint64(20) {
		rng := random(seed)
		s := allShapes[rng.IntN(len(allShapes))]
		data := buildSpace(s, 1+rng.IntN(1+2<<20/s.size), nil, rng)
		for range 1 + rng.IntN(3) { // of more than a region, and not at the edges of pages
			at := rng.IntN(len(data))
			clear(data[at:min(len(data), at+rng.IntN(700_000))])
		}
		damage(data, s.size, rng)
		want := slowSpace(data, false, false)
		pages, stats := run(t, innodb.Options{}, rng, sparse("d/t.ibd", data, rng))
		if got := offsets(pages, "d/t.ibd"); !slices.Equal(got, want) {
			t.Errorf("seed %d, %v: got bad pages at %v, the model says %v; %+v", seed, s, got, want, stats)
		}
	}
}

// sparse cuts a file into sparse chunks: runs of 512 zero bytes and more are holes.
func sparse(path string, data []byte, rng *rand.Rand) []part {
	var list []part
	var ext []xbstream.Extent
	var payload []byte
	start, at := 0, 0
	flush := func(to int) {
		if ext != nil {
			list = append(list, part{path: path, typ: xbstream.TypeSparse, offset: int64(start), data: payload, ext: ext})
		}
		ext, payload, start = nil, nil, to
	}
	for at < len(data) {
		from := at
		for at < len(data) && data[at] == 0 {
			at++
		}
		if at-from < 512 {
			at = from
		}
		hole := at - from
		from = at
		for at < len(data) && !(at+512 <= len(data) && zeros(data[at:at+512])) && at-from < 300_000 {
			at++
		}
		ext = append(ext, xbstream.Extent{Skip: uint32(hole), Len: uint32(at - from)})
		payload = append(payload, data[from:at]...)
		if rng.IntN(4) == 0 {
			flush(at)
		}
	}
	flush(at)
	return append(list, part{path: path, typ: xbstream.TypeEnd})
}

// TestHugeHoles: a map of holes costs no time for their size.
func TestHugeHoles(t *testing.T) {
	data := buildSpace(shape{16384, "full"}, 8, nil, random(30))
	var ext []xbstream.Extent
	for range 1000 {
		ext = append(ext, xbstream.Extent{Skip: 4<<30 - 16384})
	}
	list := []part{
		{path: "d/t.ibd", data: data},
		{path: "d/t.ibd", typ: xbstream.TypeSparse, offset: int64(len(data)), ext: ext},
		{path: "d/u.ibd", file: 1, typ: xbstream.TypeSparse, ext: ext},
		{path: "d/v.ibd.delta", file: 2, typ: xbstream.TypeSparse, ext: ext},
		{path: "aria_log.1", file: 3, typ: xbstream.TypeSparse, ext: ext},
	}
	pages, stats := run(t, innodb.Options{}, nil, list)
	if len(pages) != 0 || stats.Empty < 1000*(4<<30/16384-1) {
		t.Errorf("got %v, %+v, want pages that are empty", pages, stats)
	}
}

// TestSeeks: what is jumped over is not judged, what is seen whole is.
func TestSeeks(t *testing.T) {
	const size = 8192
	data := buildSpace(shape{size, "plain"}, 60, nil, random(31))
	bent := slices.Clone(data)
	for _, no := range []int{3, 10, 30, 40} {
		bent[no*size+77] ^= 1
	}
	at := func(from, to int) part { return part{path: "d/t.ibd", offset: int64(from), data: bent[from:to]} }
	tests := []struct {
		name string
		list []part
		want []int
	}{
		{"in order", []part{at(0, 60*size)}, []int{3, 10, 30, 40}},
		{"cut out", []part{at(0, 5*size), at(12*size, 35*size)}, []int{3, 30}},
		{"edges within pages", []part{at(0, 9*size+10), at(10*size-5, 29*size), at(30*size+1, 42*size)}, []int{3, 10, 40}},
		{"from the middle", []part{at(8*size, 60*size)}, []int{10, 30, 40}},
		{"from the middle of a page", []part{at(8*size-100, 60*size)}, []int{10, 30, 40}},
		{"from the middle, few", []part{at(8*size, 12*size)}, []int{10}},
		{"from within a region", []part{at(2*size, 60*size)}, []int{10, 30, 40}},
		{"back again", []part{at(16*size, 35*size), at(0, 5*size)}, []int{30, 3}},
		{"seek chunk", []part{at(0, size), {path: "d/t.ibd", typ: xbstream.TypeSeek, offset: 29 * size}, at(29*size, 31*size)}, []int{30}},
		{"window given up", []part{{path: "d/t.ibd", data: make([]byte, 1000)}, at(16*size, 35*size)}, []int{30}},
	}
	for _, test := range tests {
		for _, file := range []int{0, -1} { // a stream, a fragment
			for _, rng := range []*rand.Rand{nil, random(1), random(2)} {
				t.Run(fmt.Sprint(test.name, file, rng != nil), func(t *testing.T) {
					list := slices.Clone(test.list)
					for i := range list {
						list[i].file = file
					}
					pages, _ := run(t, innodb.Options{}, rng, list)
					var got []int
					for _, p := range pages {
						got = append(got, int(p.Number))
					}
					if !slices.Equal(got, test.want) {
						t.Errorf("got bad pages %v, want %v", got, test.want)
					}
				})
			}
		}
	}
}

// TestFragments: a fragment's files have no numbers and need no end.
func TestFragments(t *testing.T) {
	rng := random(32)
	one, two := buildSpace(shape{16384, "full"}, 40, nil, rng), buildSpace(shape{4096, "zip"}, 200, nil, rng)
	one[20*16384+5] ^= 1
	two[100*4096+5] ^= 1
	lists := [][]part{chunks("d/a.ibd", -1, one, rng), chunks("d/b.ibd", -1, two, rng)[1:]}
	lists[1] = lists[1][:len(lists[1])-1]
	pages, stats := run(t, innodb.Options{}, rng, lists...)
	if len(pages) != 2 || stats.Files != 2 {
		t.Errorf("got %+v, %+v, want one bad page in each file", pages, stats)
	}
}

// TestRewrite: another version of a path is another file.
func TestRewrite(t *testing.T) {
	rng := random(33)
	list := chunks("d/t.ibd", 0, buildSpace(shape{16384, "full"}, 9, nil, rng), rng)
	list = append(list, chunks("d/t.ibd", 1, buildSpace(shape{4096, "zip"}, 9, nil, rng), rng)...)
	pages, stats := run(t, innodb.Options{}, rng, list)
	if len(pages) != 0 || stats.Files != 2 || stats.Pages != 18 {
		t.Errorf("got %v, %+v, want two files of 9 sound pages", pages, stats)
	}
}

// TestWrittenStream goes through a real writer and checker of the stream, with Close called twice and Stats kept apart.
func TestWrittenStream(t *testing.T) {
	data := buildSpace(shape{16384, "full"}, 100, nil, random(34))
	data[77*16384+9000] ^= 1
	var stream bytes.Buffer
	w := xbstream.NewWriter(&stream)
	for _, path := range []string{"d/a.ibd", "d/b.MYD", "d/c.ibd"} {
		if _, err := w.WriteFile(path, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	var pages []innodb.Page
	c := innodb.NewChecker(innodb.Options{OnBad: func(p innodb.Page) { pages = append(pages, p) }})
	x := xbstream.NewChecker(xbstream.Options{Handler: c, Expect: xbstream.ExpectAny, Base: 1000})
	for piece := range slices.Chunk(stream.Bytes(), 12345) {
		if _, err := x.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	c.Close()
	if len(pages) != 2 || pages[0].Path != "d/a.ibd" || pages[1].Path != "d/c.ibd" || pages[0].Number != 77 {
		t.Fatalf("got %+v, want page 77 of two files", pages)
	}
	for _, p := range pages {
		raw := stream.Bytes()[p.RawOffset-1000:]
		if n := 16384; !bytes.Equal(raw[:min(n, 2000)], data[77*n:77*n+min(n, 2000)]) {
			t.Errorf("%+v: the page does not stand there", p)
		}
	}
	if s := c.Stats(); s.Files != 2 || s.Pages != 200 || s.Bad != 2 {
		t.Errorf("got %+v, want 2 files, 200 pages, 2 bad", s)
	}
}

// TestManyOpenFiles: memory is bounded however many files are open with a cut page; those without room stay unchecked.
func TestManyOpenFiles(t *testing.T) {
	const files = 3000
	page := build(pageSpec{shape: shape{65536, "full"}, flags: flagsOf(shape{65536, "full"})}, random(35))
	c := innodb.NewChecker(innodb.Options{OnBad: func(p innodb.Page) { t.Errorf("got %+v, want nothing", p) }})
	c.SetLimit(4 << 20)
	f := &feeder{c: c}
	for round := range 3 {
		for i := range files {
			switch round {
			case 0:
				f.feed(part{path: "d/t.ibd", file: i, data: page[:60_000]})
			case 1:
				f.feed(part{path: "d/t.ibd", file: i, offset: 60_000, data: page[60_000:]})
				f.feed(part{path: "d/t.ibd", file: i, offset: 65_536, data: make([]byte, 40_000)})
			case 2:
				f.feed(part{path: "d/t.ibd", file: i, offset: 105_536, data: make([]byte, 200_000)})
				f.feed(part{path: "d/t.ibd", file: i, typ: xbstream.TypeEnd})
			}
			if held := c.Held(); held > 4<<20 {
				t.Fatalf("got %d bytes held, want at most 4 MiB", held)
			}
		}
	}
	s := c.Stats()
	if s.Files != files || s.Bad != 0 || s.Skipped != files-64 || len(s.Skips) != innodb.MaxSkips || c.Held() != 0 {
		t.Errorf("got %d files, %d bad, %d skipped of which %d named, %d held", s.Files, s.Bad, s.Skipped, len(s.Skips), c.Held())
	}
}

// TestNoRoom: with no memory at all, pages that lie whole in a piece are judged and the others stay unchecked.
func TestNoRoom(t *testing.T) {
	s := shape{16384, "full"}
	data := buildSpace(s, 20, nil, random(36))
	data[7*s.size+100]++
	data[10*s.size+100]++
	delta := buildDelta(data, s.size, []int{1, 2, 3})
	c := innodb.NewChecker(innodb.Options{})
	c.SetLimit(0)
	f := &feeder{c: c}
	cut := 10*s.size + 5000
	f.feed(part{path: "d/t.ibd", data: data[:cut]})
	f.feed(part{path: "d/t.ibd", offset: int64(cut), data: data[cut:]})
	f.feed(part{path: "d/t.ibd", typ: xbstream.TypeEnd})
	for _, p := range chunks("d/t.ibd.meta", 1, []byte(metaText(s, 1)), nil) {
		f.feed(p)
	}
	f.feed(part{path: "d/t.ibd.delta", file: 2, data: delta})
	f.feed(part{path: "d/t.ibd.delta", file: 2, typ: xbstream.TypeEnd})
	for _, p := range chunks("d/u.ibd.meta", 3, []byte(metaText(s, 1)), nil) {
		f.feed(p)
	}
	f.feed(part{path: "d/u.ibd.delta", file: 4, data: delta[:100]})
	f.feed(part{path: "d/u.ibd.delta", file: 4, typ: xbstream.TypeEnd})
	c.Close()
	got := c.Stats()
	if got.Bad != 1 || got.Pages < 20 || got.Unchecked < 1 || got.Skipped != 2 {
		t.Errorf("got %+v, want one bad page, one unchecked, two files skipped", got)
	}
}

// TestNoAllocations: pages cost no allocation, whether they lie whole in a piece or not.
func TestNoAllocations(t *testing.T) {
	data := buildSpace(shape{16384, "full"}, 64, nil, random(37))
	c := innodb.NewChecker(innodb.Options{})
	h := xbstream.Chunk{Header: xbstream.Header{Type: xbstream.TypePayload, Path: "d/t.ibd"}}
	c.Chunk(&h)
	c.Data(data)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for n := range 50 {
		h.Offset = int64(n+1) * int64(len(data))
		c.Chunk(&h)
		for rest := data; len(rest) > 0; rest = rest[min(len(rest), 50_001):] {
			c.Data(rest[:min(len(rest), 50_001)])
		}
	}
	runtime.ReadMemStats(&after)
	// Every page is reported as having the wrong number, and nobody listens.
	if got := after.Mallocs - before.Mallocs; got > 1000 {
		t.Errorf("got %d allocations for 3200 pages, want next to none", got)
	}
}
