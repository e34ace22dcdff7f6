package verify

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
)

const pageSize = 16 << 10

// tablespace returns n good pages of a tablespace in the full_crc32 format.
func tablespace(n int) []byte {
	var all []byte
	content := letters(pageSize)
	for number := range n {
		p := slices.Clone(content)
		binary.BigEndian.PutUint32(p, 0) // not encrypted
		binary.BigEndian.PutUint32(p[4:], uint32(number))
		binary.BigEndian.PutUint64(p[16:], 4711)  // LSN
		binary.BigEndian.PutUint16(p[24:], 17855) // an index page
		binary.BigEndian.PutUint32(p[34:], 9)     // space
		binary.BigEndian.PutUint32(p[54:], 0x15)  // full_crc32, 16 KiB
		binary.BigEndian.PutUint32(p[pageSize-8:], 4711)
		sum := crc32.Checksum(p[:pageSize-4], crc32.MakeTable(crc32.Castagnoli))
		binary.BigEndian.PutUint32(p[pageSize-4:], sum)
		all = append(all, p...)
	}
	return all
}

// TestBadPages: pages are told by number and place, those behind damage too, and nothing else is taken for bad.
func TestBadPages(t *testing.T) {
	const pages, hit, early = 60, 41, 3
	data := tablespace(pages)
	data[hit*pageSize+5000] ^= 1
	raw := wholeStream(t, file{"shop/we@0020ird.ibd", data}, file{"shop/good.ibd", tablespace(20)})
	tests := []struct {
		name   string
		damage bool // of a block in front of the bad page
		sample float64
	}{{"all", false, 0}, {"behind damage", true, 0}, {"in a sample", false, 0.9999}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := seal(t, raw, made{codec: "none", blockSize: 10_000})
			const volume = "data.0001.xbs.age"
			parts := partsOf(t, v.read(t, volume))
			if tt.damage {
				v.flip(t, volume, parts.payload+early*65552+7)
			}
			r, err := Run(t.Context(), v.open(t), Options{Level: Pages, Sample: tt.sample, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			found := slices.DeleteFunc(find(r, volume), func(p Problem) bool { return !strings.Contains(p.Message, "page") })
			if len(found) != 1 {
				t.Fatalf("got %v, want one bad page", found)
			}
			p := found[0]
			chunk := chunkOf(t, v.index(t), "shop/we@0020ird.ibd")
			place := chunk.Data + hit*pageSize // the file is one chunk
			want := whole(volume, p.Message)
			want.Block, want.RawOffset, want.Offset = place/10_000, place, place/10_000*10_000
			want.StoredOffset = parts.payload + want.Offset/65536*65552
			if p.Block != want.Block || p.RawOffset != want.RawOffset || p.Offset != want.Offset || p.StoredOffset != want.StoredOffset {
				t.Errorf("got %+v, want %+v", p, want)
			}
			if !strings.HasPrefix(p.Message, "bad page 41 at byte 671744 of the file: ") || !slices.Equal(p.Tables, []string{"shop.we ird"}) {
				t.Errorf("got %q, tables %q", p.Message, p.Tables)
			}
			if r.Pages.Bad != 1 || r.Pages.Pages < pages {
				t.Errorf("got %+v", r.Pages)
			}
			if tt.sample == 0 && !slices.Equal(r.LostTables, []string{"shop.we ird"}) {
				t.Errorf("got lost tables %q", r.LostTables)
			}
		})
	}
}

// TestSamplesOfPages: whatever part is read, good pages are not taken for bad.
func TestSamplesOfPages(t *testing.T) {
	raw := wholeStream(t, file{"db/a.ibd", tablespace(70)}, file{"db/b.ibd", tablespace(9)}, file{"undo001", tablespace(33)})
	for _, blockSize := range []int{4096, 16_000, 50_000} {
		_, _, b := backup(t, raw, made{codec: "none", blockSize: blockSize})
		checked := int64(0)
		for seed := range uint64(20) {
			r, err := Run(t.Context(), b, Options{Level: Pages, Sample: 0.3, Seed: seed + 1})
			if err != nil || !r.OK {
				t.Fatalf("blocks of %d, seed %d: got %v, %v", blockSize, seed+1, err, r.Problems)
			}
			checked += r.Pages.Pages - r.Pages.Unchecked
		}
		if checked == 0 && blockSize > 2*pageSize {
			t.Errorf("blocks of %d: no page was checked", blockSize)
		}
	}
}
