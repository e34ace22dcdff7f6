package verify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// likeReal is a stream with the files that a server's backup has.
func likeReal(t testing.TB, more ...file) []byte {
	t.Helper()
	files := []file{
		{"ibdata1", letters(20_000)}, {"undo001", letters(9000)}, {"mysql/global_priv.MAD", letters(5000)},
		{"shop/a.MYD", letters(30_000)}, {"shop/a.frm", letters(900)}, {"shop/b#P#p0.MAD", letters(25_000)},
		{"shop/b#P#p1.MAD", letters(26_000)}, {"shop/we@0020ird.MYD", letters(21_000)}, {"ib_logfile0", letters(15_000)},
	}
	return wholeStream(t, append(files, more...)...)
}

// chunkOf returns the first payload chunk of a file.
func chunkOf(t testing.TB, index *catalog.Index, path string) xbstream.Chunk {
	t.Helper()
	for c := range index.Chunks() {
		if c.Path == path && c.Type == xbstream.TypePayload {
			return *c
		}
	}
	t.Fatalf("no chunk of %s", path)
	return xbstream.Chunk{}
}

// damageFile flips a byte in the block with the middle of a file.
func damageFile(t testing.TB, dir string, b *catalog.Backup, path string) pipeline.Block {
	t.Helper()
	index, err := b.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := chunkOf(t, index, path)
	middle := c.Data + c.Size/2
	for block := range index.Blocks(middle, middle+1) {
		name := filepath.Join(dir, b.Manifest.Volumes[block.Volume-1].Name)
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data[block.Stored+block.StoredSize/2] ^= 4
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return block
	}
	t.Fatal("no block")
	return pipeline.Block{}
}

func TestWhatCanBeRestored(t *testing.T) {
	tests := []struct {
		name   string
		hit    []string // files
		want   Restorable
		tables []string
	}{
		{"nothing hit", nil, RestorableAll, nil},
		{"a table", []string{"shop/a.MYD"}, RestorableTables, []string{"shop.a"}},
		{"partitions", []string{"shop/b#P#p0.MAD", "shop/b#P#p1.MAD"}, RestorableTables, []string{"shop.b"}},
		{"a name in other letters", []string{"shop/we@0020ird.MYD"}, RestorableTables, []string{"shop.we ird"}},
		{"the system tablespace", []string{"ibdata1"}, RestorableFiles, nil},
		{"undo", []string{"undo001"}, RestorableFiles, nil},
		{"redo and a table", []string{"shop/a.MYD", "ib_logfile0"}, RestorableFiles, []string{"shop.a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := likeReal(t)
			r, dir, b := backup(t, raw, made{codec: "zstd", blockSize: 4096, volumeSize: 40_000})
			for _, path := range tt.hit {
				damageFile(t, dir, b, path)
			}
			report := run(t, again(t, r, b.ID), Read)
			var lost []string
			for _, f := range report.Lost {
				lost = append(lost, f.Path)
				if f.Why != whyDamaged || f.Size == 0 {
					t.Errorf("got %+v", f)
				}
			}
			slices.Sort(tt.hit)
			if !slices.Equal(lost, tt.hit) || report.LostFiles != int64(len(tt.hit)) || report.LostMore {
				t.Errorf("got lost files %q, want %q", lost, tt.hit)
			}
			if report.Restorable != tt.want || !slices.Equal(report.LostTables, append([]string{}, tt.tables...)) {
				t.Errorf("got %s without %q, want %s without %q", report.Restorable, report.LostTables, tt.want, tt.tables)
			}
			if report.IntactFiles != 12-int64(len(tt.hit)) || report.Files != 12 {
				t.Errorf("got %d files intact of %d, want %d of 12", report.IntactFiles, report.Files, 12-len(tt.hit))
			}
			if hash := run(t, again(t, r, b.ID), Hash); len(tt.hit) > 0 && hash.Restorable != RestorableUnknown {
				t.Errorf("hash: got %s, want unknown", hash.Restorable)
			}
		})
	}
}

func TestNothingIsLeft(t *testing.T) {
	r, dir, b := backup(t, likeReal(t), made{codec: "zstd", blockSize: 4096, volumeSize: 40_000})
	for _, v := range b.Manifest.Volumes {
		if err := os.Remove(filepath.Join(dir, v.Name)); err != nil {
			t.Fatal(err)
		}
	}
	report := run(t, again(t, r, b.ID), Read)
	if report.Restorable != RestorableNothing || report.IntactFiles != 0 || report.LostFiles != 12 {
		t.Errorf("got %s, %d intact, %d lost", report.Restorable, report.IntactFiles, report.LostFiles)
	}
	for _, v := range b.Manifest.Volumes {
		found := find(report, v.Name)
		if len(found) != 2 { // once by its size, once by its blocks
			t.Errorf("%s: got %v", v.Name, found)
		}
	}
}

// TestFrontOfAStream: without an index only what ended before the damage is known.
func TestFrontOfAStream(t *testing.T) {
	raw := likeReal(t)
	r, dir, b := backup(t, raw, made{codec: "zstd", blockSize: 4096, volumeSize: 40_000})
	damageFile(t, dir, b, "shop/a.MYD")
	if err := os.Remove(filepath.Join(dir, "index.zst")); err != nil {
		t.Fatal(err)
	}
	report := run(t, again(t, r, b.ID), Pages)
	if !report.LostMore || report.Restorable != RestorableFiles {
		t.Errorf("got %s, more lost: %v", report.Restorable, report.LostMore)
	}
	if report.IntactFiles != 3 || report.LostFiles != 1 || report.Lost[0] != (LostFile{"shop/a.MYD", "shop.a", 30_000, whyCut}) {
		t.Errorf("got %d intact, lost %+v, want 3 and shop/a.MYD", report.IntactFiles, report.Lost)
	}
}

// TestGoesOnBehindBadChunks: the frames are as they were stored, the stream in them isn't.
func TestGoesOnBehindBadChunks(t *testing.T) {
	good := likeReal(t)
	bad := slices.Clone(good)
	_, _, b := backup(t, good, made{codec: "lz4", blockSize: 4096})
	index, err := b.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hit := []string{"shop/a.MYD", "shop/b#P#p1.MAD"}
	var at []int64
	for _, path := range hit {
		c := chunkOf(t, index, path)
		bad[c.Data+c.Size/2] ^= 1
		at = append(at, c.Start)
	}
	_, _, b = backup(t, bad, made{codec: "lz4", blockSize: 4096, lie: good})
	report := run(t, b, Read)
	if len(report.Problems) != len(hit) {
		t.Fatalf("got %v, want two", report.Problems)
	}
	for i, p := range report.Problems {
		if p.RawOffset != at[i] || !slices.Equal(p.Files, hit[i:i+1]) || p.Block != at[i]/4096 {
			t.Errorf("got %v in block %d at %d, want %s in block %d at %d", p, p.Block, p.RawOffset, hit[i], at[i]/4096, at[i])
		}
	}
	if report.Restorable != RestorableTables || !slices.Equal(report.LostTables, []string{"shop.a", "shop.b"}) || report.RawBytes != int64(len(bad)) {
		t.Errorf("got %s without %q", report.Restorable, report.LostTables)
	}
}

// TestIndexOfAnotherStream: an index that fits the blocks and not what is in them.
func TestIndexOfAnotherStream(t *testing.T) {
	one := wholeStream(t, file{"db/one.MYD", letters(50_000)}, file{"db/two.MYD", letters(50_000)})
	two := wholeStream(t, file{"db/two.MYD", letters(50_000)}, file{"db/one.MYD", letters(50_000)})
	_, dir, b := backup(t, one, made{codec: "lz4", blockSize: 4096, lie: two})
	report := run(t, b, Read)
	if len(report.Problems) != 1 || report.Problems[0].Object != "index.zst" {
		t.Errorf("got %v, want a problem of the index", report.Problems)
	}
	report, err := Run(t.Context(), b, Options{Level: Read, Sample: 0.3, Seed: 3})
	if err != nil || len(find(report, "index.zst")) != 1 {
		t.Errorf("sample: got %v, %v, want a problem of the index", err, report.Problems)
	}
	_ = dir
}

// TestHostileIndexes: what an index claims costs nothing before it is proven.
func TestHostileIndexes(t *testing.T) {
	raw := likeReal(t)
	blocks := func(n int, rawSize, stored uint64) []byte {
		var section []byte
		for i := range n {
			first := uint64(0)
			if i == 0 {
				first = 1
			}
			section = binary.AppendUvarint(section, rawSize<<1|first)
			section = binary.AppendUvarint(section, stored)
			section = append(section, 1, 2, 3, 4)
		}
		return section
	}
	gap := func(n uint64) []byte { return binary.AppendUvarint([]byte{7}, n) }
	index := func(blocks, chunks []byte) []byte {
		data := []byte("mbwrap index 1\n")
		for _, s := range []struct {
			tag     byte
			content []byte
		}{{'B', blocks}, {'C', chunks}, {'Z', nil}} {
			data = append(binary.AppendUvarint(append(data, s.tag), uint64(len(s.content))), s.content...)
		}
		return data
	}
	const large = 64 << 20
	tests := []struct {
		name  string
		index []byte
		raw   int64
	}{
		{"not an index", []byte("whatever"), 0},
		{"sizes near 2^63", index(blocks(2, 1<<62, 1<<62), nil), 0},
		{"blocks that claim much", index(blocks(5000, large, 1), gap(5000*large)), 5000 * large},
		{"blocks that overlap the end", index(blocks(5000, large, large), gap(5000*large)), 5000 * large},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, b := backup(t, raw, made{codec: "zstd", blockSize: 4096, index: tt.index, rawBytes: tt.raw})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			report := run(t, b, Pages)
			runtime.ReadMemStats(&after)
			if report.OK || len(report.Problems) > maxProblems {
				t.Errorf("got %d problems", len(report.Problems))
			}
			const slots = 2*1 + 2 // of pipeline.Unpack with one job
			if got, most := after.TotalAlloc-before.TotalAlloc, uint64(slots+1)*2*large; got > most {
				t.Errorf("got %d bytes allocated, want at most %d", got, most)
			}
		})
	}
}

// TestManyFilesInADamagedBlock: the list is bounded, the count is right, and the time is not squared.
func TestManyFilesInADamagedBlock(t *testing.T) {
	const n = 60_000
	files := make([]file, n)
	for i := range files {
		files[i] = file{fmt.Sprintf("db%d/t%d.frm", i%50, i), nil}
	}
	r, dir, b := backup(t, likeReal(t, files...), made{codec: "zstd", blockSize: 4 << 20})
	path := filepath.Join(dir, b.Manifest.Volumes[0].Name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	report := run(t, again(t, r, b.ID), Read)
	p := report.Problems[slices.IndexFunc(report.Problems, func(p Problem) bool { return p.Block == 0 })]
	if len(p.Files) != maxFiles || p.FileCount != n+12 || len(p.Tables) != maxFiles || len(report.Lost) != maxLost || report.LostFiles != n+12 {
		t.Errorf("got %d files of %d, %d tables, %d lost of %d", len(p.Files), p.FileCount, len(p.Tables), len(report.Lost), report.LostFiles)
	}
	if len(report.LostTables) != maxLost || report.LostTableCount != n+4 {
		t.Errorf("got %d lost tables of %d, want %d of %d", len(report.LostTables), report.LostTableCount, maxLost, n+4)
	}
}

// FuzzRun verifies backups whose index and volume are anything at all.
func FuzzRun(f *testing.F) {
	raw := likeReal(f)
	_, dir, b := backup(f, raw, made{codec: "zstd", blockSize: 4096})
	volume, err := os.ReadFile(filepath.Join(dir, b.Manifest.Volumes[0].Name))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("mbwrap index 1\n"), volume, int64(len(raw)))
	f.Add([]byte("mbwrap index 1\nB\x00C\x00Z\x00"), []byte{}, int64(0))
	f.Fuzz(func(t *testing.T, index, volume []byte, rawBytes int64) {
		if rawBytes < 1 || rawBytes > 1<<40 {
			return
		}
		_, dir, b := backup(t, raw, made{codec: "zstd", blockSize: 4096, index: index, rawBytes: rawBytes})
		if err := os.WriteFile(filepath.Join(dir, b.Manifest.Volumes[0].Name), volume, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, o := range []Options{{Level: Pages, Jobs: 1}, {Level: Pages, Jobs: 1, Sample: 0.5, Seed: 1}} {
			report, err := Run(t.Context(), b, o)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := report.Text(&text); err != nil || report.OK && report.Sample == nil && !bytes.Equal(volume, []byte{}) && !strings.Contains(text.String(), "good") {
				t.Fatalf("got %v, %s", err, text.String())
			}
		}
	})
}
