package restore_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/restore"
)

// loseIndex makes a backup's index unreadable.
func loseIndex(t *testing.T, b *catalog.Backup) {
	t.Helper()
	if err := os.Truncate(objectPath(b, b.Manifest.Index.Name), 70); err != nil {
		t.Fatal(err)
	}
}

// stale are the files that are in salvageStream at some time and not in the end, or not like this.
func stale(name string) bool {
	return name == "shop/tmp.MAI" || name == "shop/gone.MYD" || name == "shop/a.MAD"
}

// assertGleaned compares what was made of a stream with a gap, of which nobody knows what was in it, with the files of the
// whole: nothing may be there that is not whole, and certain files must be.
func assertGleaned(t *testing.T, result restore.Result, whole map[string]string, must func(name string) bool) {
	t.Helper()
	if result.Aside == "" || result.Prepared {
		t.Errorf("got %+v, want the files put aside", result)
	}
	got := readTree(t, filepath.Join(result.Target, aside, "files"))
	lost := map[string]bool{}
	for _, l := range result.Lost {
		lost[l.Path] = true
	}
	for name, content := range whole {
		there, found := got[name]
		needed := must(name)
		switch {
		case found && there != content && !stale(name):
			t.Errorf("%q: got %d bytes that are not what was backed up", name, len(there))
		case !found && needed:
			t.Errorf("%q: is missing", name)
		case found && lost[name]:
			t.Errorf("%q: is there and listed as lost", name)
		}
	}
	for name := range got {
		if _, known := whole[name]; !known && !stale(name) {
			t.Errorf("%q: is there, want no such file", name)
		}
	}
}

// TestGleanIntact salvages an intact backup without an index.
func TestGleanIntact(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		backup, _, whole := salvageBackup(t, packing{sealed: sealed})
		loseIndex(t, backup)
		result := mustSalvage(t, backup)
		sameTree(t, result.Target, whole)
		if result.LostFiles != 0 || result.Aside != "" || len(result.Warnings) != 1 {
			t.Errorf("got %+v, want a restore with one warning", result)
		}
	}
}

// TestGleanEveryBlock damages one block after the other of backups without an index. What ended before it, and what is in
// the next volumes, is there. Each codec takes its turn.
func TestGleanEveryBlock(t *testing.T) {
	for turn, name := range []string{"zstd", "gzip", "lz4", "none"} {
		t.Run(name, func(t *testing.T) {
			backup, parts, whole := salvageBackup(t, packing{codec: name})
			blocks := allBlocks(t, backup)
			loseIndex(t, backup)
			some := false
			for i, b := range blocks {
				if i%4 != turn {
					continue
				}
				flip(t, volumePath(backup, b.Volume), b.Stored+b.StoredSize/2)
				next := b.Raw + b.RawSize // from here on everything can be read again
				for _, o := range blocks[i:] {
					if o.Volume == b.Volume {
						next = o.Raw + o.RawSize
					}
				}
				result, err := salvage(t, backup)
				if err != nil {
					t.Fatalf("block %d: %v", i, err)
				}
				assertGleaned(t, result, whole, func(name string) bool {
					places := parts[name]
					before := places[len(places)-1].end <= b.Raw-4<<10 // what the decoder made just before the damage isn't used
					behind := places[0].start >= next && len(whole[name]) > 0
					some = some || behind
					return (before || behind) && !stale(name) && name != "shop/a.MAI"
				})
				flip(t, volumePath(backup, b.Volume), b.Stored+b.StoredSize/2)
			}
			if !some {
				t.Error("nothing was behind any damage")
			}
		})
	}
}

// TestGleanGoesOn has a file that is open while a volume is missing, and of which nothing is in it.
func TestGleanGoesOn(t *testing.T) {
	b := newStream(t)
	b.put("ib_logfile0", noise(1, 5000)).put("open.ibd", noise(2, 5000))
	b.file("db/lost.ibd", string(noise(3, 60_000)))
	b.file("db/behind.ibd", string(noise(4, 50_000))).put("ib_logfile0", noise(5, 3000)).end("ib_logfile0").end("open.ibd")
	stream := b.meta().bytes()
	parts := owners(b.log)
	backup := makeBackup(t, memoryDir(t), stream, packing{codec: "none", blockSize: 4 << 10, volumeSize: 20 << 10})
	whole := wholeTree(t, backup)
	loseIndex(t, backup)
	if parts["db/lost.ibd"][0].end < 60<<10 {
		t.Fatal("the lost file does not reach over a volume")
	}
	if err := os.Remove(volumePath(backup, 3)); err != nil {
		t.Fatal(err)
	}
	result := mustSalvage(t, backup)
	assertGleaned(t, result, whole, func(name string) bool { return name != "db/lost.ibd" && name != "open.ibd" })
	if len(result.Lost) != 2 || result.Lost[0].Path != "db/lost.ibd" || result.Lost[1].Path != "open.ibd" {
		t.Errorf("lost: got %+v, want the one in the gap, and the one whose end proves nothing", result.Lost)
	}
	text, err := os.ReadFile(filepath.Join(result.Aside, "README.txt"))
	if err != nil || !bytes.Contains(text, []byte("data.0003")) || !bytes.Contains(text, []byte("no index")) {
		t.Errorf("README.txt: got %s, %v", text, err)
	}
}

// TestGleanNested has a stream inside of a file, just where a volume is missing.
func TestGleanNested(t *testing.T) {
	inner := newStream(t).file("mysql/planted.frm", string(noise(1, 3000))).file("mysql/empty.frm", "").bytes()
	payload := append(bytes.Repeat([]byte{1}, 30_000), inner...)
	payload = append(payload, noise(2, 9000)...)
	stream := newStream(t).file("first.ibd", "1").put("db/t.ibd", payload).end("db/t.ibd").
		file("db/u.ibd", string(noise(3, 5000))).meta().bytes()
	backup := makeBackup(t, memoryDir(t), stream, packing{codec: "none", blockSize: 4 << 10, volumeSize: 8 << 10})
	whole := wholeTree(t, backup)
	loseIndex(t, backup)
	if err := os.Remove(volumePath(backup, 2)); err != nil {
		t.Fatal(err)
	}
	assertGleaned(t, mustSalvage(t, backup), whole, func(name string) bool { return name != "db/t.ibd" })
}

// TestSalvageStream salvages foreign streams.
func TestSalvageStream(t *testing.T) {
	stream, parts := salvageStream(t)
	whole := wholeTree(t, makeBackup(t, memoryDir(t), stream, packing{}))
	wrong := bytes.Clone(stream)
	wrong[parts["shop/t2.ibd"][1].end-5] ^= 1
	for _, c := range []struct {
		name   string
		stored []byte
		must   func(name string) bool // nil: everything
	}{
		{"whole", stream, nil},
		{"whole, compressed", compress(t, "zstd", stream, 8<<10), nil},
		{"a wrong payload", wrong, func(name string) bool {
			return !stale(name) && name != "shop/t2.ibd" && name != "other/empty.ibd" && name != "shop/big.ibd"
		}},
		{"cut", stream[:parts["shop/t5.frm"][0].end], func(name string) bool {
			places := parts[name]
			return places[len(places)-1].end <= parts["shop/t5.frm"][0].end
		}},
		{"cut inside of a frame", compress(t, "gzip", stream, 8<<10)[:30_000], func(name string) bool {
			places := parts[name]
			return places[len(places)-1].end <= 24<<10
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := filepath.Join(memoryDir(t), "t")
			result, err := restore.Run(t.Context(), restore.Options{Target: target, Stream: streamOf(c.stored), NoPrepare: true, Salvage: true})
			if err != nil {
				t.Fatal(err)
			}
			if c.must == nil {
				sameTree(t, target, whole)
				return
			}
			assertGleaned(t, result, whole, c.must)
		})
	}
	for _, c := range []struct {
		name   string
		stored string
		check  func(error) bool
	}{
		{"nothing is left", strings.Repeat("XBSTCK01", 3), func(err error) bool { return errors.Is(err, restore.ErrNothing) }},
		{"no stream", "age-encryption.org/v1\n-> X25519", func(err error) bool {
			var f *restore.FormatError
			return errors.As(err, &f) && f.Sealed && strings.Contains(err.Error(), "identity")
		}},
	} {
		_, err := restore.Run(t.Context(), restore.Options{
			Target: filepath.Join(memoryDir(t), "t"), Stream: streamOf([]byte(c.stored)), NoPrepare: true, Salvage: true,
		})
		if !c.check(err) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

// TestGleanMoves has files renamed, removed and written anew behind a damage.
func TestGleanMoves(t *testing.T) {
	b := newStream(t)
	b.file("a", string(noise(1, 500))).file("b", string(noise(2, 500))).file("c", string(noise(3, 500))).put("d", noise(4, 500))
	b.put("hit", noise(5, 3000)).end("hit")
	b.rename("a", "a2").remove("b").again("c", "new c").rename("hit", "hit2").put("d", noise(6, 100)).put("d", noise(7, 100)).end("d")
	stream := b.meta().bytes()
	whole := with(map[string]string{
		"a2": string(noise(1, 500)), "c": "new c", "d": string(noise(4, 500)) + string(noise(6, 100)) + string(noise(7, 100)),
	})
	stream[owners(b.log)["hit2"][0].end-5] ^= 1
	target := filepath.Join(memoryDir(t), "t")
	result, err := restore.Run(t.Context(), restore.Options{Target: target, Stream: streamOf(stream), NoPrepare: true, Salvage: true})
	if err != nil {
		t.Fatal(err)
	}
	sameTree(t, filepath.Join(target, aside, "files"), whole)
	if len(result.Lost) != 1 || result.Lost[0].Path != "hit2" {
		t.Errorf("lost: got %+v, want hit2", result.Lost)
	}
}

// FuzzSalvage salvages backups that were changed and have no index: nothing but what was in them may come out, and nothing
// may hang or panic. Heads of chunks have no checksum of their own, frames have.
func FuzzSalvage(f *testing.F) {
	f.Add(uint(100), byte(1), uint(1<<20))
	f.Add(uint(9100), byte(255), uint(60_000))
	f.Add(uint(9100), byte(0), uint(10_000))
	f.Fuzz(func(t *testing.T, at uint, change byte, cut uint) {
		b := newStream(t)
		for i := range 5 {
			b.file(fmt.Sprintf("f%d", i), string(noise(uint64(i), 2000*i)))
		}
		backup := makeBackup(t, memoryDir(t), b.meta().bytes(), packing{codec: "zstd", blockSize: 4 << 10})
		want := maps.Clone(metaFiles())
		for i := range 5 {
			want[fmt.Sprintf("f%d", i)] = string(noise(uint64(i), 2000*i))
		}
		loseIndex(t, backup)
		size := backup.Manifest.Volumes[0].Size
		at %= uint(size)
		volume, err := os.ReadFile(volumePath(backup, 1))
		if err != nil {
			t.Fatal(err)
		}
		volume[at] ^= change
		if err := os.WriteFile(volumePath(backup, 1), volume[:min(int64(cut%(1<<30)), size)], 0o600); err != nil {
			t.Fatal(err)
		}
		result, err := salvage(t, backup)
		if err != nil {
			return
		}
		dir := result.Target
		if result.Aside != "" {
			dir = filepath.Join(result.Aside, "files")
		}
		for name, content := range readTree(t, dir) {
			if known, found := want[name]; found && content != known && name != lostList {
				t.Errorf("%q: got %d bytes, want %d", name, len(content), len(known))
			}
		}
	})
}

// TestGleanUnproven changes the name of a file in a frame, where a decoder hands it out before it finds the checksum wrong.
func TestGleanUnproven(t *testing.T) {
	name := "db/qzxwvkjy.frm"
	stream := newStream(t).file("first", string(noise(1, 9000))).file(name, "").file("last", string(noise(2, 9000))).meta().bytes()
	for _, c := range []string{"zstd", "gzip", "lz4"} {
		backup := makeBackup(t, memoryDir(t), stream, packing{codec: c, blockSize: 16 << 10})
		whole := wholeTree(t, backup)
		loseIndex(t, backup)
		volume, err := os.ReadFile(volumePath(backup, 1))
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(volume, []byte("qzxwvkjy"))
		if at < 0 {
			t.Logf("%s does not store the name as it is", c)
			continue
		}
		flip(t, volumePath(backup, 1), int64(at)+3)
		result, err := salvage(t, backup)
		if errors.Is(err, restore.ErrNothing) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		assertGleaned(t, result, whole, func(string) bool { return false })
	}
}
