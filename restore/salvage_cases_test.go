package restore_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/restore"
	"github.com/mbwrap/mbwrap/sinks"
)

// salvageBackup is a backup of salvageStream in several volumes.
func salvageBackup(t *testing.T, o packing) (b *catalog.Backup, parts map[string]extents, whole map[string]string) {
	t.Helper()
	stream, parts := salvageStream(t)
	if o.blockSize == 0 {
		o.blockSize, o.volumeSize = 4<<10, 40<<10
	}
	b = makeBackup(t, memoryDir(t), stream, o)
	return b, parts, wholeTree(t, b)
}

// volumePath returns the file of a volume, counted from 1.
func volumePath(b *catalog.Backup, n int) string { return objectPath(b, b.Manifest.Volumes[n-1].Name) }

// damageAt damages the block at an offset of the raw stream, or the chunk of age that it is in, and returns the files that
// this costs.
func damageAt(t *testing.T, b *catalog.Backup, parts map[string]extents, raw int64) map[string]bool {
	t.Helper()
	blocks := allBlocks(t, b)
	i := slices.IndexFunc(blocks, func(b pipeline.Block) bool { return b.Raw <= raw && raw < b.Raw+b.RawSize })
	hit := blocks[i]
	at := hit.Stored + hit.StoredSize/2
	if !b.Manifest.Encrypted {
		flip(t, volumePath(b, hit.Volume), at)
		return lostBy(parts, hit.Raw, hit.Raw+hit.RawSize)
	}
	const chunk = 64 << 10
	volumes := b.StoredVolumes(t.Context())
	flip(t, volumePath(b, hit.Volume), volumes.Stored(hit.Volume, at)+3)
	if err := volumes.Close(); err != nil {
		t.Fatal(err)
	}
	return lostIn(blocks, parts, hit.Volume, at/chunk*chunk, at/chunk*chunk+chunk)
}

// TestSalvageVolumes loses whole volumes, or their ends.
func TestSalvageVolumes(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		backup, parts, whole := salvageBackup(t, packing{sealed: sealed})
		blocks := allBlocks(t, backup)
		last := len(backup.Manifest.Volumes)
		for _, c := range []struct {
			name   string
			volume int
			keep   int64 // bytes of the volume
			lost   int64 // offset in the volume from which on everything is lost
		}{
			{"the second is missing", 2, -1, 0},
			{"the last is missing", last, -1, 0},
			{"the first is empty", 1, 0, 0},
			{"the second is cut", 2, 20_000, 20_000},
			{"the last is cut by a byte", last, backup.Manifest.Volumes[last-1].Size - 1, backup.Manifest.Volumes[last-1].Size - 1},
		} {
			t.Run(c.name, func(t *testing.T) {
				good, err := os.ReadFile(volumePath(backup, c.volume))
				if err == nil && c.keep < 0 {
					err = os.Remove(volumePath(backup, c.volume))
				} else if err == nil {
					err = os.Truncate(volumePath(backup, c.volume), c.keep)
				}
				if err != nil {
					t.Fatal(err)
				}
				if sealed { // its only age chunk is cut
					c.lost = 0
				}
				lost := map[string]bool{}
				for _, b := range blocks {
					if b.Volume == c.volume && b.Stored+b.StoredSize > c.lost {
						maps.Copy(lost, lostBy(parts, b.Raw, b.Raw+b.RawSize))
					}
				}
				assertSalvaged(t, mustSalvage(t, backup), whole, lost)
				if err := os.WriteFile(volumePath(backup, c.volume), good, 0o600); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// TestSalvageTwoDamages damages two blocks, and then all.
func TestSalvageTwoDamages(t *testing.T) {
	backup, parts, whole := salvageBackup(t, packing{codec: "zstd"})
	lost := damageAt(t, backup, parts, parts["shop/t1.frm"][0].start)
	maps.Copy(lost, damageAt(t, backup, parts, parts["shop/a.MAD"][0].start))
	if len(lost) < 3 || len(lost) > len(whole)/2 {
		t.Fatalf("damage hits %d files", len(lost))
	}
	assertSalvaged(t, mustSalvage(t, backup), whole, lost)
	for n := range backup.Manifest.Volumes {
		if err := os.Truncate(volumePath(backup, n+1), 1); err != nil {
			t.Fatal(err)
		}
	}
	target := filepath.Join(memoryDir(t), "t")
	_, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, NoPrepare: true, Salvage: true})
	if !errors.Is(err, restore.ErrNothing) {
		t.Errorf("nothing left: got %v, want %v", err, restore.ErrNothing)
	}
	assertUnfinished(t, target)
	for n := range backup.Manifest.Volumes {
		if err := os.Remove(volumePath(backup, n+1)); err != nil {
			t.Fatal(err)
		}
	}
	if result, err := salvage(t, backup); !errors.Is(err, catalog.ErrMissing) || !absentFile(result.Target) {
		t.Errorf("no volumes: got %v, want %v before the target is touched", err, catalog.ErrMissing)
	}
}

// TestSalvageSelection loses only what is asked for.
func TestSalvageSelection(t *testing.T) {
	backup, parts, whole := salvageBackup(t, packing{})
	hit := damageAt(t, backup, parts, parts["shop/t3.ibd"][1].start)
	for _, c := range []struct {
		name   string
		choose func(path string) bool
	}{
		{"what is hit and more", func(p string) bool { return strings.HasPrefix(p, "shop/t") }},
		{"what is not hit", func(p string) bool { return !hit[p] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, lost := map[string]string{}, map[string]bool{}
			for name, content := range whole {
				if c.choose(name) {
					want[name] = content
					if hit[name] {
						lost[name] = true
					}
				}
			}
			result, err := restore.Run(t.Context(), restore.Options{
				Target: filepath.Join(memoryDir(t), "t"), Backup: backup, NoPrepare: true, Salvage: true,
				Select: func(f catalog.File) bool { return c.choose(f.Path) },
			})
			if err != nil {
				t.Fatal(err)
			}
			assertSalvaged(t, result, want, lost)
		})
	}
}

// TestSalvageGoesOn restores until the damage, refuses, and salvages the rest. What is complete is not read again, and
// what was salvaged is not taken for a whole restore.
func TestSalvageGoesOn(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		backup, parts, whole := salvageBackup(t, packing{sealed: sealed, blockSize: 4 << 10, volumeSize: 100 << 10})
		lost := damageAt(t, backup, parts, parts["shop/t4.frm"][0].start)
		target := filepath.Join(memoryDir(t), "t")
		o := restore.SyncOften(restore.Options{Target: target, Backup: backup, NoPrepare: true})
		if _, err := restore.Run(t.Context(), o); err == nil {
			t.Fatal("damaged backup: was restored as if whole")
		}
		assertUnfinished(t, target)
		assertNoSecret(t, target)
		o.Salvage = true
		result, err := restore.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if !result.Resumed || result.Kept == 0 {
			t.Errorf("got %+v, want files taken over", result)
		}
		assertSalvaged(t, result, whole, lost)
	}
}

// assertNoSecret looks for identities in all files below dir.
func assertNoSecret(t *testing.T, dir string) {
	t.Helper()
	for name, content := range readTree(t, dir) {
		if strings.Contains(content, "AGE-SECRET-KEY") {
			t.Errorf("%q holds a secret", name)
		}
	}
}

// TestSalvagePrepareAgain interrupts the prepare of what was salvaged.
func TestSalvagePrepareAgain(t *testing.T) {
	backup, parts, whole := salvageBackup(t, packing{})
	lost := damageAt(t, backup, parts, parts["shop/t3.ibd"][2].start)
	target := filepath.Join(memoryDir(t), "t")
	o := restore.Options{Target: target, Backup: backup, Salvage: true, Owner: ourselves(), Tool: fakeTool(t, "10.11.19", "echo broken >&2; exit 1")}
	_, err := restore.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "can't be prepared without the") {
		t.Errorf("failing prepare: got %v", err)
	}
	o.Tool, o.Salvage = fakeTool(t, "10.11.19", preparedWell), false
	var other *restore.UnfinishedError
	if _, err := restore.Run(t.Context(), o); !errors.As(err, &other) || !strings.Contains(err.Error(), "leaves out what is damaged") {
		t.Errorf("without salvage: got %v, want %T", err, other)
	}
	assertUnfinished(t, target)
	o.Salvage = true
	result, err := restore.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !result.Prepared || !result.Resumed || !strings.Contains(strings.Join(result.Next, "\n"), "shop.t3") {
		t.Errorf("got %+v, want it prepared, and steps about shop.t3", result)
	}
	whole["prepared"] = "prepared\n"
	result.Files++ // the tool's own, which was not there when they were counted
	assertSalvaged(t, result, whole, lost)
}

// TestSalvagePutAside damages the system tablespace: nothing is prepared.
func TestSalvagePutAside(t *testing.T) {
	backup, parts, whole := salvageBackup(t, packing{})
	lost := damageAt(t, backup, parts, parts["ibdata1"][0].start+5000)
	result, err := restore.Run(t.Context(), restore.Options{
		Target: filepath.Join(memoryDir(t), "t"), Backup: backup, Salvage: true, Tool: fakeTool(t, "10.11.19", preparedWell),
	})
	if err != nil {
		t.Fatal(err)
	}
	assertSalvaged(t, result, whole, lost)
	if len(result.Next) != 1 || !strings.Contains(result.Next[0], "README.txt") {
		t.Errorf("next steps: got %q, want one that names the README.txt", result.Next)
	}
}

// faultySink answers reads of volumes with an error.
type faultySink struct {
	sinks.Sink
	err error
}

type faultyObject struct {
	sinks.Object
	err error
}

func (s *faultySink) Open(ctx context.Context, name string) (sinks.Object, error) {
	o, err := s.Sink.Open(ctx, name)
	if err != nil || !strings.Contains(name, "data.0002") {
		return o, err
	}
	return faultyObject{o, s.err}, nil
}

func (o faultyObject) ReadAt(p []byte, at int64) (int, error) {
	if at > 10_000 && at < 20_000 {
		return 0, &fs.PathError{Op: "read", Path: "data.0002", Err: o.err}
	}
	return o.Object.ReadAt(p, at)
}

// TestSalvageBrokenStore tells a disk that can't read a sector from a store that does not answer.
func TestSalvageBrokenStore(t *testing.T) {
	backup, parts, whole := salvageBackup(t, packing{})
	lost := map[string]bool{}
	for _, b := range allBlocks(t, backup) {
		if b.Volume == 2 && b.Stored > 10_000 && b.Stored < 20_000 {
			maps.Copy(lost, lostBy(parts, b.Raw, b.Raw+b.RawSize))
		}
	}
	for _, c := range []struct {
		err  error
		want error
	}{{syscall.EIO, nil}, {syscall.ECONNRESET, syscall.ECONNRESET}} {
		local, err := sinks.NewLocal(backup.Repository.Location())
		if err != nil {
			t.Fatal(err)
		}
		r, err := catalog.Open(t.Context(), &faultySink{local, c.err}, "broken")
		if err != nil {
			t.Fatal(err)
		}
		b, err := r.Find(t.Context(), "db1", backup.ID)
		if err != nil {
			t.Fatal(err)
		}
		result, err := salvage(t, b)
		if !errors.Is(err, c.want) {
			t.Fatalf("%v: got %v, want %v", c.err, err, c.want)
		}
		if err == nil {
			assertSalvaged(t, result, whole, lost)
		}
	}
}

// TestSalvageTwice cancels a salvage, and runs it again; also when everything is put aside already.
func TestSalvageTwice(t *testing.T) {
	for _, core := range []bool{false, true} {
		stream, parts := salvageStream(t)
		repository := memoryDir(t)
		made := makeBackup(t, repository, stream, packing{codec: "none", blockSize: 4 << 10})
		whole := wholeTree(t, made)
		lost := damageAt(t, made, parts, parts["shop/t1.frm"][0].start)
		if core {
			maps.Copy(lost, damageAt(t, made, parts, parts["ib_logfile0"][0].start+3000))
		}
		ctx, cancel := context.WithCancel(t.Context())
		sink := &slowSink{after: len(stream) / 2, stop: cancel}
		target := filepath.Join(memoryDir(t), "t")
		o := restore.SyncOften(restore.Options{Target: target, NoPrepare: true, Salvage: true, Jobs: 1})
		if core {
			sink.after = len(stream)
			o.OnPhase = func(p restore.Phase) {
				if p == restore.PhaseHandOver {
					cancel()
				}
			}
		}
		var err error
		if o.Backup, err = openBackup(t.Context(), repository, sink); err != nil {
			t.Fatal(err)
		}
		if _, err := restore.Run(ctx, o); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled: got %v", err)
		}
		assertUnfinished(t, target)
		result, err := restore.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if !result.Resumed || !core && result.Kept == 0 {
			t.Errorf("got %+v, want it resumed", result)
		}
		assertSalvaged(t, result, whole, lost)
	}
}

// TestEncrypted refuses an encrypted backup without a key, before anything is touched, and restores it with one: in one go,
// after an interruption, and without an index.
func TestEncrypted(t *testing.T) {
	stream, want := killStream(t)
	backup := makeBackup(t, memoryDir(t), stream, packing{sealed: true, locked: true, blockSize: 64 << 10})
	target := filepath.Join(memoryDir(t), "t")
	for _, salvage := range []bool{false, true} {
		var locked *catalog.KeyError
		_, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, NoPrepare: true, Salvage: salvage})
		if !errors.As(err, &locked) || len(locked.Recipients) != 1 || !absentFile(target) {
			t.Errorf("locked, salvage %v: got %v, want %T and no target", salvage, err, locked)
		}
	}
	backup = makeBackup(t, memoryDir(t), stream, packing{sealed: true, blockSize: 64 << 10, volumeSize: 1 << 20})
	middle := len(backup.Manifest.Volumes)/2 + 1
	flip(t, volumePath(backup, middle), 600_000)
	o := restore.SyncOften(restore.Options{Target: target, Backup: backup, NoPrepare: true})
	if _, err := restore.Run(t.Context(), o); !errors.Is(err, encrypt.ErrDamaged) {
		t.Fatalf("damaged: got %v, want %v", err, encrypt.ErrDamaged)
	}
	assertUnfinished(t, target)
	assertNoSecret(t, target)
	flip(t, volumePath(backup, middle), 600_000)
	result, err := restore.Run(t.Context(), o)
	if err != nil || !result.Resumed || result.Kept == 0 {
		t.Fatalf("mended: got %+v, %v, want files taken over", result, err)
	}
	sameTree(t, target, want)
	loseIndex(t, backup)
	o.Target = filepath.Join(memoryDir(t), "t")
	if _, err := restore.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	sameTree(t, o.Target, want)
}

// TestSalvageNoManifest says what is left to do.
func TestSalvageNoManifest(t *testing.T) {
	backup, _, _ := salvageBackup(t, packing{})
	if err := os.WriteFile(objectPath(backup, catalog.ManifestObject), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := backup.Repository.List(t.Context(), "db1")
	if err != nil || len(all) != 1 {
		t.Fatalf("got %v, %v", all, err)
	}
	if _, err := salvage(t, all[0]); !errors.Is(err, catalog.ErrManifest) || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("got %v, want %v and what can be done by hand", err, catalog.ErrManifest)
	}
}

// TestSalvageWrongChunk has a chunk of which the checksum is wrong in a block of which it is right.
func TestSalvageWrongChunk(t *testing.T) {
	stream, parts := salvageStream(t)
	name := "shop/t2.ibd"
	bad := bytes.Clone(stream)
	bad[parts[name][1].end-100] ^= 1
	backup, err := pack(t.Context(), memoryDir(t), bytes.NewReader(bad), packing{blockSize: 4 << 10, volumeSize: 40 << 10, lie: stream, noCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	whole := wholeTree(t, makeBackup(t, memoryDir(t), stream, packing{}))
	if _, err := restore.Run(t.Context(), restore.Options{Target: filepath.Join(memoryDir(t), "t"), Backup: backup, NoPrepare: true}); err == nil {
		t.Error("without salvage: no error")
	}
	result := mustSalvage(t, backup)
	assertSalvaged(t, result, whole, map[string]bool{name: true})
	if got := result.Lost[0].RawOffset; got != parts[name][1].start {
		t.Errorf("raw offset: got %d, want %d", got, parts[name][1].start)
	}
}
