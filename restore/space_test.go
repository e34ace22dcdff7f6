package restore_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/restore"
)

// smallDisk mounts a file system in memory with room for so many bytes. Only root can.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		testenv.Missing(t, "mount", "a file system of limited size: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// resize changes the room of a smallDisk.
func resize(t *testing.T, dir string, bytes int) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Fatal(err)
	}
}

// spaceStream holds files of several sizes, some 300 KiB altogether.
func spaceStream(t testing.TB) ([]byte, map[string]string) {
	b := newStream(t)
	want := make(map[string]string)
	for i := range 20 {
		name := fmt.Sprintf("db%d/t%d.ibd", i%3, i)
		want[name] = string(noise(uint64(i), 1000+i*1500))
		b.file(name, want[name])
	}
	return b.meta().bytes(), with(want)
}

// TestDiskFull fills the disk at every page of a restore, then makes room and runs it again.
func TestDiskFull(t *testing.T) {
	stream, want := spaceStream(t)
	backup := makeBackup(t, memoryDir(t), stream, packing{blockSize: 16 << 10})
	run := map[string]func(target string) (restore.Result, error){
		"planned": func(target string) (restore.Result, error) {
			return restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, NoPrepare: true, SkipSpace: true})
		},
		"streamed": func(target string) (restore.Result, error) {
			return restore.Extract(t.Context(), streamOf(stream), restore.ExtractOptions{Target: target})
		},
	}
	const page = 4 << 10
	for name, restoreInto := range run {
		t.Run(name, func(t *testing.T) {
			disk := smallDisk(t, page)
			full := 0
			for size := page; ; size += page {
				resize(t, disk, size)
				target := filepath.Join(disk, "t")
				_, err := restoreInto(target)
				if err == nil {
					sameTree(t, target, want)
					break
				}
				full++
				var space *restore.SpaceError
				if !errors.As(err, &space) || !errors.Is(err, syscall.ENOSPC) || space.Err == nil {
					t.Fatalf("%d bytes: got %v, want a SpaceError", size, err)
				}
				if !absentFile(target) {
					assertUnfinished(t, target)
				}
				if size%(5*page) == 0 { // else the next run goes on with what this one has left
					if err := os.RemoveAll(target); err != nil {
						t.Fatal(err)
					}
				}
			}
			if full < 50 {
				t.Errorf("the disk was full %d times, want once a page", full)
			}
		})
	}
}

// TestSpaceCheckedFirst refuses a target that is too small before anything is written.
func TestSpaceCheckedFirst(t *testing.T) {
	stream, want := spaceStream(t)
	backup := makeBackup(t, memoryDir(t), stream, packing{})
	var size int64
	for _, content := range want {
		size += int64(len(content))
	}
	disk := smallDisk(t, 128<<10)
	target := filepath.Join(disk, "deep", "t")
	o := restore.Options{Target: target, Backup: backup, NoPrepare: true}
	_, err := restore.Run(t.Context(), o)
	var space *restore.SpaceError
	if !errors.As(err, &space) || space.Need != size || space.Free != 128<<10 || space.Err != nil || space.Inodes {
		t.Fatalf("got %v, want a SpaceError: need %d of %d", err, size, 128<<10)
	}
	if !absentFile(filepath.Dir(target)) {
		t.Error("refused target: something was made")
	}
	resize(t, disk, 2<<20)
	if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "nr_inodes=10"); err != nil {
		t.Fatal(err)
	}
	if _, err = restore.Run(t.Context(), o); !errors.As(err, &space) || !space.Inodes || space.Need != int64(len(want)) {
		t.Errorf("few inodes: got %v, want a SpaceError: need %d", err, len(want))
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "nr_inodes=1000"); err != nil {
		t.Fatal(err)
	}
	if _, err = restore.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	sameTree(t, target, want)
}

// TestSalvageSpaceCheckedFirst wants room for what a salvage makes at most, before anything is written.
func TestSalvageSpaceCheckedFirst(t *testing.T) {
	backup, parts, whole := salvageBackup(t, packing{})
	var size int64
	for _, content := range whole {
		size += int64(len(content))
	}
	lost := damageAt(t, backup, parts, parts["shop/t3.ibd"][1].start)
	disk := smallDisk(t, 64<<10)
	o := restore.Options{Target: filepath.Join(disk, "t"), Backup: backup, NoPrepare: true, Salvage: true}
	var space *restore.SpaceError
	if _, err := restore.Run(t.Context(), o); !errors.As(err, &space) || space.Need != size || !absentFile(o.Target) {
		t.Fatalf("got %v, want a SpaceError: need %d", err, size)
	}
	resize(t, disk, 2<<20)
	result, err := restore.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	assertSalvaged(t, result, whole, lost)
}

// TestNoRoomToBegin leaves nothing behind where there is no room for the state either.
func TestNoRoomToBegin(t *testing.T) {
	stream, _ := spaceStream(t)
	disk := smallDisk(t, 1<<20)
	for files := 1; ; files++ {
		if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("nr_inodes=%d", files)); err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(disk, "t")
		_, err := restore.Extract(t.Context(), streamOf(stream), restore.ExtractOptions{Target: target})
		var space *restore.SpaceError
		if !errors.As(err, &space) {
			t.Fatalf("room for %d files: got %v, want a SpaceError", files, err)
		}
		var incomplete *restore.IncompleteError
		if errors.As(err, &incomplete) {
			assertUnfinished(t, target)
			return
		}
		if !absentFile(target) {
			t.Errorf("room for %d files: something was left behind", files)
		}
	}
}

// TestMountPoint restores into a target that is a file system of its own.
func TestMountPoint(t *testing.T) {
	stream, want := spaceStream(t)
	disk := smallDisk(t, 4<<20)
	if err := errors.Join(os.Mkdir(filepath.Join(disk, "lost+found"), 0o700), os.Chmod(disk, 0o751)); err != nil {
		t.Fatal(err)
	}
	if _, err := restore.Extract(t.Context(), streamOf(stream), restore.ExtractOptions{Target: disk}); err != nil {
		t.Fatal(err)
	}
	sameTree(t, disk, want)
	if info, err := os.Stat(disk); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("mode of the target: got %v, %v, want it unchanged", info.Mode(), err)
	}
}

// manyFiles is a stream of n small files in 50 directories.
func manyFiles(t *testing.T, n int) []byte {
	b := newStream(t)
	for i := range n {
		b.file(fmt.Sprintf("db%d/table%d.frm", i%50, i), "frm")
	}
	return b.meta().bytes()
}

// TestManyFiles restores 100,000 files, and fewer in the other way, which differs in nothing that takes long.
func TestManyFiles(t *testing.T) {
	n, fewer := 100_000, 10_000
	if raceDetector {
		n = fewer
	}
	stream, short := manyFiles(t, n), manyFiles(t, fewer)
	backup := makeBackup(t, memoryDir(t), stream, packing{})
	for _, c := range []struct {
		name  string
		files int
		run   func(target string) (restore.Result, error)
	}{
		{"planned", n, func(target string) (restore.Result, error) {
			return restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, NoPrepare: true})
		}},
		{"streamed", fewer, func(target string) (restore.Result, error) {
			return restore.Extract(t.Context(), streamOf(short), restore.ExtractOptions{Target: target})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			result, err := c.run(filepath.Join(memoryDir(t), "t"))
			if err != nil {
				t.Fatal(err)
			}
			if result.Files != int64(c.files)+4 {
				t.Errorf("got %d files, want %d", result.Files, c.files+4)
			}
			t.Logf("%d files in %v", result.Files, time.Since(start))
		})
	}
}

// TestFewDescriptors restores with a limit of 64 descriptors, 3000 files one after the other, and 300 files that are all
// open at the same time.
func TestFewDescriptors(t *testing.T) {
	b := newStream(t)
	want := make(map[string]string)
	for i := range 3000 {
		name := fmt.Sprintf("db/t%d", i)
		b.file(name, name)
		want[name] = name
	}
	for round := range 3 {
		for i := range 300 {
			name := fmt.Sprintf("open/t%d", i)
			b.put(name, fmt.Appendf(nil, "%d %d\n", round, i))
			want[name] += fmt.Sprintf("%d %d\n", round, i)
		}
	}
	for i := range 300 {
		b.end(fmt.Sprintf("open/t%d", i))
	}
	stream := b.meta().bytes()
	repository, target := memoryDir(t), filepath.Join(memoryDir(t), "t")
	makeBackup(t, repository, stream, packing{})
	prlimit := testenv.Need(t, "prlimit")
	cmd := helper(t, repository, target)
	limited := exec.CommandContext(t.Context(), prlimit, append([]string{"--nofile=64:64"}, cmd.Args...)...)
	if out, err := limited.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sameTree(t, target, with(want))
}
