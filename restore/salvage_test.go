package restore_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/restore"
	"github.com/mbwrap/mbwrap/xbstream"
)

const (
	aside    = "mbwrap-salvaged"
	lostList = "mbwrap-lost.txt"
)

// extents are places in a stream.
type extents []struct{ start, end int64 }

// overlap tells whether any of them has a byte between start and end.
func (e extents) overlap(start, end int64) bool {
	for _, x := range e {
		if x.start < end && start < x.end {
			return true
		}
	}
	return false
}

// salvageStream is a small backup with everything that makes it hard: files in pieces among each other, an old version of
// a file, a rename, a remove, holes. parts tells for each file that remains where its chunks are; nothing of ours computed
// that.
func salvageStream(t testing.TB) (stream []byte, parts map[string]extents) {
	b := newStream(t)
	b.put("ibdata1", noise(1, 9000))
	for i := range 6 {
		name := fmt.Sprintf("shop/t%d.ibd", i)
		for j := range i + 1 {
			b.put(name, noise(uint64(100*i+j), 5000))
			b.put("shop/big.ibd", noise(uint64(1000+100*i+j), 1700))
		}
		b.file(strings.TrimSuffix(name, "ibd")+"frm", string(noise(uint64(i), 700)))
		b.end(name)
		b.put("ibdata1", noise(uint64(i), 900))
	}
	b.file("shop/a.MAD", string(noise(7, 6000))).file("shop/tmp.MAI", string(noise(8, 5000))).file("shop/gone.MYD", string(noise(9, 6000)))
	b.seek("shop/big.ibd", 100_000).put("shop/big.ibd", noise(10, 4000)).end("shop/big.ibd").end("ibdata1")
	b.sparse("other/s.ibd", noise(11, 6000), xbstream.Extent{Skip: 4096, Len: 2000}, xbstream.Extent{Skip: 8192, Len: 4000}).end("other/s.ibd")
	b.file("other/empty.ibd", "")
	b.rename("shop/tmp.MAI", "shop/a.MAI").remove("shop/gone.MYD").again("shop/a.MAD", string(noise(12, 7000)))
	b.file("ib_logfile0", string(noise(13, 6000)))
	stream = b.meta().bytes()
	return stream, owners(b.log)
}

// owners follows a log of chunks and returns, for each file that is there at the end, where its chunks are.
func owners(log []record) map[string]extents {
	files, ended := map[string]extents{}, map[string]bool{}
	for _, r := range log {
		switch r.Type {
		case xbstream.TypeRename:
			files[r.NewPath] = files[r.Path]
			delete(files, r.Path)
			ended[r.NewPath] = true
		case xbstream.TypeRemove:
			delete(files, r.Path)
		default:
			if ended[r.Path] {
				delete(files, r.Path)
			}
			ended[r.Path] = r.Type == xbstream.TypeEnd
			files[r.Path] = append(files[r.Path], struct{ start, end int64 }{r.start, r.end})
		}
	}
	return files
}

// lostBy returns the files that have a byte in the given part of the stream.
func lostBy(parts map[string]extents, start, end int64) map[string]bool {
	lost := map[string]bool{}
	for name, e := range parts {
		if e.overlap(start, end) {
			lost[name] = true
		}
	}
	return lost
}

// isCore tells whether a test's file is one that nothing can be prepared without.
func isCore(name string) bool {
	return slices.Contains([]string{"ibdata1", "ib_logfile0", "xtrabackup_checkpoints", "backup-my.cnf"}, name)
}

// assertSalvaged compares what a salvage made with what it should make: all files but the lost ones, which are listed.
func assertSalvaged(t *testing.T, result restore.Result, whole map[string]string, lost map[string]bool) {
	t.Helper()
	want := maps.Clone(whole)
	core := false
	for name := range lost {
		delete(want, name)
		core = core || isCore(name)
	}
	names := slices.Sorted(maps.Keys(lost))
	var got []string
	for _, l := range result.Lost {
		got = append(got, l.Path)
		if l.Reason == "" || l.RawOffset < 0 || strings.HasPrefix(l.Path, "shop/t") && l.Table != "shop."+l.Path[5:7] {
			t.Errorf("lost file: got %+v", l)
		}
	}
	if !slices.Equal(got, names) || result.LostFiles != int64(len(names)) || result.Files != int64(len(want)) {
		t.Errorf("lost: got %d files %q, want %q; %d files are left, want %d", result.LostFiles, got, names, result.Files, len(want))
	}
	if len(lost) == 0 {
		sameTree(t, result.Target, want)
		return
	}
	assertLists(t, result, core, names)
	if core {
		sameTree(t, filepath.Join(result.Target, aside, "files"), want)
		return
	}
	want[lostList] = readTree(t, result.Target)[lostList]
	sameTree(t, result.Target, want)
}

// assertLists looks at what is written beside the files.
func assertLists(t *testing.T, result restore.Result, core bool, names []string) {
	t.Helper()
	dir := result.Target
	if core {
		dir = filepath.Join(dir, aside)
		entries, err := os.ReadDir(result.Target)
		if err != nil || len(entries) != 1 || result.Aside != dir || result.Prepared {
			t.Errorf("put aside in %q: got %v, %v, want %q only", result.Aside, entries, err, dir)
		}
		text, err := os.ReadFile(filepath.Join(dir, "README.txt"))
		if err != nil || !bytes.Contains(text, []byte("NOT a data directory")) {
			t.Errorf("README.txt: got %q, %v", text, err)
		}
	} else if result.Aside != "" {
		t.Errorf("aside: got %q, want none", result.Aside)
	}
	text, err := os.ReadFile(result.LostList)
	if err != nil || result.LostList != filepath.Join(dir, lostList) || len(result.Warnings) == 0 {
		t.Errorf("list %q: %v; warnings %q", result.LostList, err, result.Warnings)
	}
	for _, name := range names {
		if !bytes.Contains(text, []byte("\n"+name+"\t")) {
			t.Errorf("list: got %q, want it to name %q", text, name)
		}
	}
}

// flip changes a byte of a file.
func flip(t *testing.T, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	b[0] ^= 0x55
	if err == nil {
		_, err = f.WriteAt(b, at)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// wholeTree returns what a restore of an intact backup makes.
func wholeTree(t *testing.T, b *catalog.Backup) map[string]string {
	t.Helper()
	target := filepath.Join(memoryDir(t), "whole")
	if _, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: b, NoPrepare: true}); err != nil {
		t.Fatal(err)
	}
	return readTree(t, target)
}

// salvage restores what is intact.
func salvage(t *testing.T, b *catalog.Backup) (restore.Result, error) {
	t.Helper()
	target := filepath.Join(memoryDir(t), "t")
	return restore.Run(t.Context(), restore.Options{Target: target, Backup: b, NoPrepare: true, Salvage: true})
}

// mustSalvage is salvage that has to work.
func mustSalvage(t *testing.T, b *catalog.Backup) restore.Result {
	t.Helper()
	result, err := salvage(t, b)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// allBlocks returns the blocks of a backup.
func allBlocks(t *testing.T, b *catalog.Backup) []pipeline.Block {
	t.Helper()
	index, err := b.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(index.AllBlocks())
}

// TestSalvageEveryBlock damages one block after the other.
func TestSalvageEveryBlock(t *testing.T) {
	stream, parts := salvageStream(t)
	for _, name := range []string{"zstd", "gzip", "lz4", "none"} {
		t.Run(name, func(t *testing.T) {
			backup := makeBackup(t, memoryDir(t), stream, packing{codec: name, blockSize: 4 << 10, volumeSize: 40 << 10})
			whole := wholeTree(t, backup)
			assertSalvaged(t, mustSalvage(t, backup), whole, nil)
			seen := map[int]bool{}
			for i, b := range allBlocks(t, backup) {
				seen[b.Volume] = true
				volume := objectPath(backup, backup.Manifest.Volumes[b.Volume-1].Name)
				at := b.Stored + b.StoredSize/2
				flip(t, volume, at)
				result, err := salvage(t, backup)
				if err != nil {
					t.Fatalf("block %d: %v", i, err)
				}
				assertSalvaged(t, result, whole, lostBy(parts, b.Raw, b.Raw+b.RawSize))
				flip(t, volume, at)
			}
			if len(seen) < 3 {
				t.Errorf("got %d volumes, want several", len(seen))
			}
		})
	}
}

// TestSalvageEverySeal damages one chunk of the encrypted volumes after the other: all blocks in it are lost.
func TestSalvageEverySeal(t *testing.T) {
	stream, parts := salvageStream(t)
	for _, name := range []string{"zstd", "gzip", "lz4", "none"} {
		t.Run(name, func(t *testing.T) {
			backup := makeBackup(t, memoryDir(t), stream, packing{codec: name, blockSize: 4 << 10, volumeSize: 100 << 10, sealed: true})
			whole := wholeTree(t, backup)
			assertSalvaged(t, mustSalvage(t, backup), whole, nil)
			blocks := allBlocks(t, backup)
			for n := range backup.Manifest.Volumes {
				salvageSeals(t, backup, n+1, func(result restore.Result, start, end int64) {
					assertSalvaged(t, result, whole, lostIn(blocks, parts, n+1, start, end))
				})
			}
		})
	}
}

// lostIn returns the files that have a part in blocks that have a part in a volume from start to end.
func lostIn(blocks []pipeline.Block, parts map[string]extents, volume int, start, end int64) map[string]bool {
	lost := map[string]bool{}
	for _, b := range blocks {
		if b.Volume == volume && b.Stored < end && start < b.Stored+b.StoredSize {
			maps.Copy(lost, lostBy(parts, b.Raw, b.Raw+b.RawSize))
		}
	}
	return lost
}

// salvageSeals damages the parts of an encrypted volume and tells check which bytes of plaintext that costs.
func salvageSeals(t *testing.T, backup *catalog.Backup, n int, check func(result restore.Result, start, end int64)) {
	t.Helper()
	const chunk = 64 << 10
	volumes := backup.StoredVolumes(t.Context())
	plain, err := backup.OpenVolume(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	path := objectPath(backup, backup.Manifest.Volumes[n-1].Name)
	for start := int64(0); start < plain.Size(); start += chunk {
		at := volumes.Stored(n, start) + 3
		flip(t, path, at)
		check(mustSalvage(t, backup), start, start+chunk)
		flip(t, path, at)
	}
	flip(t, path, 30) // in the header: nothing can be opened
	check(mustSalvage(t, backup), 0, plain.Size())
	flip(t, path, 30)
	if err := errors.Join(plain.Close(), volumes.Close()); err != nil {
		t.Fatal(err)
	}
}
