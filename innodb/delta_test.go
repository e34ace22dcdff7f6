package innodb_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/innodb"
	"github.com/mbwrap/mbwrap/xbstream"
)

// pick returns which pages of n changed, page 0 or not, never the empty one.
func pick(n int, first bool) []int {
	var numbers []int
	for no := range n {
		if no != 5 && (no%3 != 1) && (no > 0 || first) {
			numbers = append(numbers, no)
		}
	}
	return numbers
}

// TestDeltas judges deltas of every layout with and without their meta file, sound and with one bit flipped.
func TestDeltas(t *testing.T) {
	for _, s := range allShapes {
		for _, withMeta := range []bool{true, false} {
			for _, first := range []bool{true, false} {
				t.Run(fmt.Sprint(s, withMeta, first), func(t *testing.T) {
					rng := random(20)
					n := min(40, 800<<10/s.size)
					if s.size == 1024 {
						n = 600 // more than one block
					}
					space := buildSpace(s, n, forms(s.kind)[:2], rng)
					numbers := pick(n, first)
					data := buildDelta(space, s.size, numbers)
					var meta []part
					if withMeta {
						meta = chunks("d/t.ibd.meta", 0, []byte(metaText(s, 7)), nil)
					}
					files := func(data []byte) []part {
						return append(slices.Clone(meta), chunks("d/t.ibd.delta", 1, data, rng)...)
					}
					pages, stats := run(t, innodb.Options{}, rng, files(data))
					if len(pages) != 0 || stats.Pages != int64(len(numbers)) || stats.Skipped != 0 || stats.Files != 1 {
						t.Fatalf("got %v, %+v, want %d sound pages", pages, stats, len(numbers))
					}
					for _, slot := range []int{3, len(numbers)} {
						at := slot * s.size
						if slot >= s.size/4 {
							at += (slot - 1) / (s.size/4 - 1) * s.size
						}
						bent := slices.Clone(data)
						bent[at+s.size/4-5] ^= 16
						pages, _ = run(t, innodb.Options{}, rng, files(bent))
						if len(pages) != 1 || pages[0].Number != uint64(numbers[slot-1]) || pages[0].Offset != int64(at) || pages[0].Table != "d.t" {
							t.Errorf("page %d: got %+v, want one at %d", numbers[slot-1], pages, at)
						}
					}
				})
			}
		}
	}
}

// TestBrokenDeltas breaks the structure of a delta.
func TestBrokenDeltas(t *testing.T) {
	s, rng := shape{4096, "full"}, random(21)
	space := buildSpace(s, 30, nil, rng)
	good := buildDelta(space, s.size, pick(30, true))
	unchanged := buildDelta(space, s.size, nil)
	bend := func(at int, b byte) []byte {
		c := slices.Clone(good)
		c[at] = b
		return c
	}
	tests := []struct {
		name    string
		data    []byte
		message string
		skip    string
	}{
		{"whole", good, "", ""},
		{"unchanged", unchanged, "", ""},
		{"empty", nil, "", "no content"},
		{"mark", bend(0, 'y'), "index of the delta: unexpected mark 0x79545241", ""},
		{"not the last block", bend(0, 'x'), "index of the delta: unexpected mark 0x78545241", ""},
		{"cut in a page", good[:5*4096+100], "the delta ends before all pages of its index came", ""},
		{"cut between pages", good[:5*4096], "the delta ends before all pages of its index came", ""},
		{"page too many", append(slices.Clone(good), space[:4096]...), "a page that the index of the delta does not list", ""},
		{"bytes too many", append(slices.Clone(good), 1, 2, 3), "the delta ends before all pages of its index came", ""},
		{"index cut", good[:100], "the delta ends before all pages of its index came", ""},
		{"number changed", bend(4*4+3, 99), "page number: stored 6, expected 99", ""},
		{"page 0 swapped", append(append(slices.Clone(good[:4096]), space[2*4096:3*4096]...), good[2*4096:]...), "page number: stored 2, expected 0", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			meta := chunks("undo001.meta", 0, []byte(metaText(s, 7)), nil)
			pages, stats := run(t, innodb.Options{}, rng, append(meta, chunks("undo001.delta", 1, test.data, rng)...))
			if got := message(pages); got != test.message || len(pages) > 1 {
				t.Errorf("got %+v, want %q", pages, test.message)
			}
			if test.skip != "" && (len(stats.Skips) != 1 || stats.Skips[0].Reason != test.skip) {
				t.Errorf("got %+v, want %q", stats, test.skip)
			}
		})
	}
	t.Run("full last block and one more", func(t *testing.T) {
		s := shape{1024, "zip"}
		space := buildSpace(s, 300, nil, rng)
		var all []int
		for no := range 256 {
			if no != 5 {
				all = append(all, no)
			}
		}
		data := buildDelta(space, s.size, all)
		meta := chunks("d/z.new.meta", 0, []byte(metaText(s, 7)), nil)
		pages, stats := run(t, innodb.Options{}, rng, append(meta, chunks("d/z.new.delta", 1, data, rng)...))
		if len(pages) != 0 || stats.Pages != 255 {
			t.Errorf("got %v, %+v, want 255 sound pages", pages, stats)
		}
		data = append(data, data[:1024]...)
		pages, _ = run(t, innodb.Options{}, rng, append(meta, chunks("d/z.new.delta", 1, data, rng)...))
		if got, want := message(pages), "index of the delta: unexpected mark 0x58545241"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("no end in the stream", func(t *testing.T) {
		list := append(chunks("undo001.meta", 0, []byte(metaText(s, 7)), nil), part{path: "undo001.delta", file: 1, data: good[:9000]})
		if pages, _ := run(t, innodb.Options{}, rng, list); len(pages) != 0 {
			t.Errorf("got %v, want nothing: the stream's own check tells", pages)
		}
	})
}

// TestUnknownDeltas have no meta file and no page that tells the size.
func TestUnknownDeltas(t *testing.T) {
	s, rng := shape{16384, "full"}, random(22)
	space := buildSpace(s, 4, nil, rng)
	ruined := buildDelta(space, s.size, []int{1, 2, 3})
	for at := s.size; at < len(ruined); at += 500 {
		ruined[at]++
	}
	tests := []struct {
		name string
		data []byte
		skip string
	}{
		{"unchanged", buildDelta(space, s.size, nil), ""},
		{"ruined", ruined, "no page tells their size, and the meta file is missing"},
		{"garbage", []byte(strings.Repeat("garbage ", 40_000)), "no page tells their size, and the meta file is missing"},
		{"short", []byte("XTR"), "no page tells their size, and the meta file is missing"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pages, stats := run(t, innodb.Options{}, rng, chunks("d/t.ibd.delta", 0, test.data, rng))
			if len(pages) != 0 || stats.Skipped != int64(len(stats.Skips)) {
				t.Errorf("got %v, %+v, want no bad page", pages, stats)
			}
			if got := fmt.Sprint(stats.Skips); test.skip == "" && got != "[]" || test.skip != "" && got != "[{d/t.ibd.delta "+test.skip+"}]" {
				t.Errorf("got %v, want %q", got, test.skip)
			}
		})
	}
}

// TestMeta: only a meta file that makes sense is believed, and one that is too long is not read.
func TestMeta(t *testing.T) {
	s, rng := shape{4096, "plain"}, random(23)
	data := buildDelta(buildSpace(s, 12, nil, rng), s.size, []int{0, 2, 4})
	for name, text := range map[string]string{
		"good": metaText(s, 7), "size of no page": "page_size = 5000\nspace_id = 1\n", "no number": "page_size = big\n",
		"nothing": "", "long": strings.Repeat("page_size = 8192\n", 100), "huge": "page_size = 1073741824\n",
		"unknown keys": "color = red\npage_size=4096\nrest",
	} {
		t.Run(name, func(t *testing.T) {
			list := append(chunks("d/t.ibd.meta", 0, []byte(text), rng), chunks("d/t.ibd.delta", 1, data, rng)...)
			if pages, stats := run(t, innodb.Options{}, rng, list); len(pages) != 0 || stats.Pages != 3 {
				t.Errorf("got %v, %+v, want 3 sound pages", pages, stats)
			}
		})
	}
	t.Run("many without a delta", func(t *testing.T) {
		var list []part
		for i := range 5000 {
			list = append(list, chunks(fmt.Sprintf("d/t%d.ibd.meta", i), i, []byte(metaText(s, 7)), nil)...)
		}
		list = append(list, chunks("d/t4999.ibd.delta", 5000, data, rng)...)
		if pages, stats := run(t, innodb.Options{}, nil, list); len(pages) != 0 || stats.Pages != 3 {
			t.Errorf("got %v, %+v, want 3 sound pages", pages, stats)
		}
	})
}

// TestSystemDelta: numbers count from the start of the file, the pages from that of the tablespace.
func TestSystemDelta(t *testing.T) {
	s, rng := shape{16384, "plain"}, random(24)
	one, two := systemFile(s, 0, 200, rng), systemFile(s, 200, 20, rng)
	for i := 64 * s.size; i < 192*s.size; i += 800 {
		one[i]++
	}
	list := chunks("ibdata1.meta", 0, []byte(metaText(s, 0)), nil)
	list = append(list, chunks("ibdata1.delta", 1, buildDelta(one, s.size, []int{0, 3, 70, 100, 191, 192, 199}), rng)...)
	list = append(list, chunks("ibdata2.meta", 2, []byte(metaText(s, 0)), nil)...)
	list = append(list, chunks("ibdata2.delta", 3, buildDelta(two, s.size, []int{0, 1, 19}), rng)...)
	pages, stats := run(t, innodb.Options{}, rng, list)
	if len(pages) != 0 || stats.Pages != 10 || stats.Unchecked != 3 {
		t.Errorf("got %v, %+v, want 10 pages, 3 of them copies", pages, stats)
	}
}

// TestDeltaInPieces: a delta that is not seen in order can't be judged.
func TestDeltaInPieces(t *testing.T) {
	s, rng := shape{4096, "full"}, random(25)
	data := buildDelta(buildSpace(s, 12, nil, rng), s.size, []int{0, 2, 4})
	meta := chunks("d/t.ibd.meta", 0, []byte(metaText(s, 7)), nil)
	for name, list := range map[string][]part{
		"middle first": {{path: "d/t.ibd.delta", file: 1, offset: 8192, data: data[8192:]}, {path: "d/t.ibd.delta", file: 1, typ: xbstream.TypeEnd}},
		"with a hole": {{path: "d/t.ibd.delta", file: 1, typ: xbstream.TypeSparse, data: data[8192:], ext: []xbstream.Extent{{Skip: 8192, Len: uint32(len(data) - 8192)}}},
			{path: "d/t.ibd.delta", file: 1, typ: xbstream.TypeEnd}},
	} {
		t.Run(name, func(t *testing.T) {
			pages, stats := run(t, innodb.Options{}, rng, append(slices.Clone(meta), list...))
			if len(pages) != 0 || stats.Skipped != 1 {
				t.Errorf("got %v, %+v, want the file skipped", pages, stats)
			}
		})
	}
}
