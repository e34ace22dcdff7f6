package innodb_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/innodb"
	"github.com/mbwrap/mbwrap/internal/gendata"
	"github.com/mbwrap/mbwrap/xbstream"
)

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// TestEveryForm has each form of page in each layout judged, whole, and with one bit flipped at places that its sum
// covers.
func TestEveryForm(t *testing.T) {
	for _, s := range allShapes {
		for _, form := range forms(s.kind) {
			t.Run(fmt.Sprintf("%d %s %s", s.size, s.kind, form), func(t *testing.T) {
				data := buildSpace(s, 8, []string{form}, random(1))
				strict := form == "legacy" || form == "lsn twice" || form == "none"
				pages, stats := run(t, innodb.Options{}, nil, chunks("d/t.ibd", 0, data, nil))
				if len(pages) != 0 || stats.Pages != 8 || stats.Empty != 1 {
					t.Fatalf("got %v, %+v, want 8 sound pages", pages, stats)
				}
				noSum := strings.Contains(form, "packed") && s.kind == "plain" || form == "foreign encrypted"
				if want := map[bool]int64{true: 6}[noSum]; stats.Unchecked != want {
					t.Errorf("got %d unchecked pages, want %d", stats.Unchecked, want)
				}
				pages, _ = run(t, innodb.Options{Strict: true}, nil, chunks("d/t.ibd", 0, data, nil))
				if got := len(pages) > 0; got != strict {
					t.Errorf("strict: got bad pages %v, want %v", got, strict)
				}
				for _, place := range []int{5, 24, 40, 100, s.size/4 - 3, s.size/4 - 20} {
					if form == "none" && place > 5 || noSum && place > 5 {
						continue // nothing covers these
					}
					bent := slices.Clone(data)
					bent[3*s.size+place] ^= 4
					pages, _ := run(t, innodb.Options{}, random(2), chunks("d/t.ibd", 0, bent, random(3)))
					if got := offsets(pages, "d/t.ibd"); !slices.Equal(got, []int{3 * s.size}) {
						t.Errorf("bit at %d: got bad pages at %v, want one at %d", place, got, 3*s.size)
					}
				}
			})
		}
	}
}

// TestMessages pins the texts and places of reports.
func TestMessages(t *testing.T) {
	full, plain, zip := shape{16384, "full"}, shape{8192, "plain"}, shape{4096, "zip"}
	tests := []struct {
		name string
		shape
		list []string
		bend func(p []byte) // page 3
		want string
	}{
		{"full_crc32", full, nil, func(p []byte) { p[500] ^= 1 }, "full_crc32 checksum: stored 0x"},
		{"full_crc32 lsn", full, nil, func(p []byte) { p[23]++; put32(p[16380:], slowCRC(p[:16380])) }, "log sequence number (low half) differs: 0x"},
		{"full_crc32 number", full, nil, func(p []byte) { p[7] = 9; put32(p[16380:], slowCRC(p[:16380])) }, "page number: stored 9, expected 3"},
		{"full_crc32 size", full, nil, func(p []byte) { put16(p[24:], 0x8040) }, "size of a page_compressed page: stored 16384, must be above 0 and below 16384"},
		{"full_crc32 no size", full, nil, func(p []byte) { put16(p[24:], 0x8000) }, "size of a page_compressed page: stored 0, must be above 0 and below 16384"},
		{"crc32", plain, nil, func(p []byte) { p[500] ^= 1 }, "crc32 checksum: stored 0x"},
		{"crc32 at the end", plain, nil, func(p []byte) { p[8192-7] ^= 1 }, "crc32 checksum at the end: stored 0x"},
		{"crc32 at the front", plain, nil, func(p []byte) { p[2] ^= 1 }, "crc32 checksum: stored 0x"},
		{"crc32 lsn", plain, nil, func(p []byte) { p[8191]++ }, "log sequence number (low half) differs: 0x"},
		{"crc32 encrypted", plain, []string{"encrypted"}, func(p []byte) { p[500] ^= 1 }, "checksum of the encrypted page: stored 0x"},
		{"compressed", zip, nil, func(p []byte) { p[500] ^= 1 }, "crc32 checksum of a compressed page: stored 0x"},
		{"stray bit", full, nil, func(p []byte) { clear(p); p[4000] = 1 }, "full_crc32 checksum: stored 0x00000000, computed 0x"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			data := buildSpace(test.shape, 6, test.list, random(4))
			test.bend(data[3*test.size : 4*test.size])
			pages, _ := run(t, innodb.Options{}, nil, chunks("d@0020b/t@002d1#P#p0.ibd", 0, data, nil))
			if len(pages) != 1 || !strings.HasPrefix(pages[0].Message, test.want) {
				t.Fatalf("got %+v, want one with %q", pages, test.want)
			}
			pages[0].Message = ""
			want := innodb.Page{Path: "d@0020b/t@002d1#P#p0.ibd", Table: "d b.t-1", Number: 3, Offset: 3 * int64(test.size), RawOffset: 50 + 3*int64(test.size)}
			if pages[0] != want {
				t.Errorf("got %+v, want %+v", pages[0], want)
			}
		})
	}
}

// TestFirstPage damages page 0, which says how to read the rest.
func TestFirstPage(t *testing.T) {
	for _, s := range allShapes {
		for _, form := range forms(s.kind) {
			data := buildSpace(s, max(8, 200<<10/s.size), []string{form}, random(5))
			for _, bit := range []int{38 * 8, 54*8 + 1, 57*8 + 1, 57*8 + 2, 57*8 + 3, 57*8 + 4, 57*8 + 6, 56*8 + 1, 56*8 + 6, 300 * 8} {
				bent := slices.Clone(data)
				bent[bit/8] ^= 1 << (bit % 8)
				pages, _ := run(t, innodb.Options{}, random(6), chunks("d/t.new", 0, bent, random(7)))
				if form == "none" || form == "legacy" || form == "lsn twice" || strings.HasPrefix(form, "foreign") {
					continue // the other pages can't prove their layout if the flags are gone
				}
				if got := offsets(pages, "d/t.new"); !slices.Equal(got, []int{0}) {
					t.Errorf("%v %s, bit %d of page 0: got bad pages at %v, want only page 0", s, form, bit, got)
				}
			}
		}
	}
}

// TestUnknownLayout has files whose page 0 tells nothing.
func TestUnknownLayout(t *testing.T) {
	s := shape{8192, "full"}
	good := buildSpace(s, 40, nil, random(8))
	late := slices.Clone(good)
	clear(late[:30*8192])
	garbage := bytes.Repeat([]byte("not a tablespace"), 20_000)
	tests := []struct {
		name   string
		data   []byte
		bad    []int
		stats  innodb.Stats
		reason string
	}{
		{"no content", nil, nil, innodb.Stats{Files: 1}, "no content"},
		{"all zero", make([]byte, 98304), nil, innodb.Stats{Files: 1, Bytes: 98304, Pages: 6, Empty: 6}, "no page was written yet"},
		{"first pages not written", late, nil, innodb.Stats{Files: 1, Bytes: 327680, Pages: 12 + 16, Empty: 12 + 6}, ""},
		{"shorter than a page", good[:5000], nil, innodb.Stats{Files: 1, Bytes: 5000, Tails: 1}, "no page that fits a checksum rule"},
		{"shorter than any page", good[:900], nil, innodb.Stats{Files: 1, Bytes: 900, Tails: 1}, "no page that fits a checksum rule"},
		{"tail", good[:4*8192+100], nil, innodb.Stats{Files: 1, Bytes: 4*8192 + 100, Pages: 4, Tails: 1}, ""},
		{"garbage", garbage, []int{0}, innodb.Stats{Files: 1, Bytes: 320000, Pages: 20, Unchecked: 19, Bad: 1, Tails: 1}, ""},
	}
	for _, test := range tests {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(test.name, seed), func(t *testing.T) {
				rng := random(seed)
				pages, stats := run(t, innodb.Options{}, rng, chunks("d/t.ibd", 0, test.data, rng))
				if got := offsets(pages, "d/t.ibd"); len(got) != int(test.stats.Bad) {
					t.Errorf("got bad pages %+v, want %v", pages, test.bad)
				}
				want := test.stats
				if test.reason != "" {
					want.Skipped, want.Skips = 1, []innodb.Skip{{Path: "d/t.ibd", Reason: test.reason}}
				}
				if fmt.Sprint(stats) != fmt.Sprint(want) {
					t.Errorf("got %+v, want %+v", stats, want)
				}
			})
		}
	}
}

// systemFile builds a file of the system tablespace that begins with page first.
func systemFile(s shape, first, n int, rng *rand.Rand) []byte {
	var data []byte
	for no := first; no < first+n; no++ {
		data = append(data, build(pageSpec{shape: s, no: no, flags: flagsOf(s)}, rng)...)
	}
	return data
}

func TestSystemTablespace(t *testing.T) {
	for _, s := range []shape{{16384, "full"}, {4096, "plain"}, {65536, "plain"}} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			rng := random(9)
			extent := max(1<<20/s.size, 64)
			n := 3*extent + 4
			one, two := systemFile(s, 0, n, rng), systemFile(s, n, 20, rng)
			for at := extent * s.size; at < 3*extent*s.size; at += 777 {
				one[at] ^= 0x55 // the doublewrite buffer holds what it wants
			}
			pages, stats := run(t, innodb.Options{}, rng, chunks("ibdata1", 0, one, rng), chunks("ibdata2", 1, two, rng))
			if len(pages) != 0 || stats.Unchecked != int64(2*extent) {
				t.Errorf("got %v, %+v, want no bad page and %d unchecked", pages, stats, 2*extent)
			}
			for _, no := range []int{0, 1, extent - 1, 3 * extent, n - 1} {
				bent := slices.Clone(one)
				bent[no*s.size+100] ^= 1
				pages, _ := run(t, innodb.Options{}, rng, chunks("ibdata1", 0, bent, rng))
				if got := offsets(pages, "ibdata1"); !slices.Equal(got, []int{no * s.size}) {
					t.Errorf("page %d of the first file: got %v", no, got)
				}
			}
			for _, no := range []int{0, 1, 19} {
				bent := slices.Clone(two)
				bent[no*s.size+100] ^= 1
				pages, _ := run(t, innodb.Options{}, rng, chunks("ibdata2", 0, bent, rng))
				if got := offsets(pages, "ibdata2"); !slices.Equal(got, []int{no * s.size}) {
					t.Errorf("page %d of the second file: got %v", no, got)
				}
			}
		})
	}
}

// TestSystemOddities: a first page with nothing but a flush LSN, and a file so short that the next one begins before the
// doublewrite buffer.
func TestSystemOddities(t *testing.T) {
	rng, s := random(10), shape{16384, "plain"}
	odd := systemFile(s, 0, 10, rng)
	clear(odd[:s.size])
	put32(odd[26:], 77)
	short := systemFile(s, 40, 60, rng)
	for i := 30 * s.size; i < len(short); i += 999 {
		short[i] ^= 1
	}
	pages, stats := run(t, innodb.Options{}, rng, chunks("ibdata1", 0, odd, rng), chunks("ibdata2", 1, short, rng))
	if len(pages) != 0 || stats.Empty != 1 || stats.Unchecked != 36 {
		t.Errorf("got %v, %+v, want no bad page, 1 empty and 36 unchecked", pages, stats)
	}
	stray := make([]byte, 20*s.size)
	copy(stray, systemFile(s, 0, 3, rng))
	stray[10*s.size+30], stray[12*s.size+7000] = 1, 1
	pages, _ = run(t, innodb.Options{}, rng, chunks("ibdata1", 0, stray, rng))
	if got := offsets(pages, "ibdata1"); !slices.Equal(got, []int{10 * s.size, 12 * s.size}) {
		t.Errorf("stray bits in unused pages: got %v", got)
	}
}

// TestAgainstTheModel compares verdicts over random damage, chunks and pieces, of several files at once.
func TestAgainstTheModel(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for seed := range uint64(rounds) {
		rng := random(seed + 100)
		var lists [][]part
		want := map[string][]int{}
		strict := rng.IntN(4) == 0
		for i := range 1 + rng.IntN(4) {
			s := allShapes[rng.IntN(len(allShapes))]
			path := fmt.Sprintf("d/t%d.ibd", i)
			list := forms(s.kind)
			if rng.IntN(2) == 0 {
				list = nil
			}
			data := buildSpace(s, 1+rng.IntN(300<<10/s.size), list, rng)
			system := rng.IntN(5) == 0
			if system {
				path = fmt.Sprintf("ibdata%d", i)
				data = systemFile(s, rng.IntN(2)*rng.IntN(900), 1+rng.IntN(300<<10/s.size), rng)
			}
			damage(data, s.size, rng)
			want[path] = slowSpace(data, system, strict)
			lists = append(lists, chunks(path, i, data, rng))
		}
		pages, _ := run(t, innodb.Options{Strict: strict}, rng, lists...)
		for path, at := range want {
			if got := offsets(pages, path); !slices.Equal(got, at) {
				t.Errorf("seed %d, %s: got bad pages at %v, the model says %v", seed, path, got, at)
			}
		}
	}
}

// damage does to a file what happens to files.
func damage(data []byte, size int, rng *rand.Rand) {
	for range rng.IntN(6) {
		at := rng.IntN(len(data))
		switch rng.IntN(5) {
		case 0, 1:
			data[at] ^= 1 << rng.IntN(8)
		case 2:
			clear(data[at:min(len(data), at+rng.IntN(40_000))])
		case 3:
			at -= at % size
			clear(data[at : at+size])
		case 4:
			from := rng.IntN(len(data)/size) * size
			copy(data[at-at%size:], data[from:from+size])
		}
	}
}

// TestGeneratedStream: a whole stream of the generator has nothing to report, and one flipped bit is found in its place.
func TestGeneratedStream(t *testing.T) {
	for _, kind := range []gendata.Kind{gendata.Sysbench, gendata.TPCC} {
		r := gendata.Stream(kind, 12<<20, 1)
		stream, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		pages, stats := checkStream(t, bytes.NewReader(stream), 1<<20)
		if len(pages) != 0 || stats.Pages < 600 || stats.Skipped != 0 {
			t.Errorf("%s: got %v, %+v, want no bad page", kind, pages, stats)
		}
	}
}

// TestOtherFiles: chunks of files that are none of InnoDB's, and chunks that are no payload, are passed over.
func TestOtherFiles(t *testing.T) {
	data := bytes.Repeat([]byte("x"), 100_000)
	var lists [][]part
	for i, path := range []string{"aria_log.00000001", "d/t.MAD", "d/t.frm", "d/t.isl", "ib_logfile0", "backup-my.cnf", "d/t.ren", "d/t.del",
		"xtrabackup_checkpoints", "ibtmp1", "ib_buffer_pool", "d/ibdata1", "d/undo001", "undo_1_trunc.log"} {
		lists = append(lists, chunks(path, i, data, nil))
	}
	lists = append(lists, []part{{path: "d/t.ibd", file: -1, typ: xbstream.TypeRename}, {path: "d/t.ibd", file: -1, typ: xbstream.TypeRemove}})
	pages, stats := run(t, innodb.Options{}, nil, lists...)
	if len(pages) != 0 || fmt.Sprint(stats) != fmt.Sprint(innodb.Stats{}) {
		t.Errorf("got %v, %+v, want nothing", pages, stats)
	}
}
