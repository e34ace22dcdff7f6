package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/internal/testenv"
)

// smallDisk mounts a file system of so many KiB.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := shortDir(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk,mode=755", size)); err != nil {
		testenv.Missing(t, "root", fmt.Sprintf("mount a tmpfs: %v", err))
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestRepositoryFull backs up to disks that become full at several places: nothing is listed, nothing is left, and a
// second, larger repository of the same run has the backup.
func TestRepositoryFull(t *testing.T) {
	s := source.get(t)
	other := filepath.Join(t.TempDir(), "other")
	for i, size := range []int{64, 300, 1500, 5000, 7000} {
		t.Run(fmt.Sprintf("%d KiB", size), func(t *testing.T) {
			repo := filepath.Join(smallDisk(t, size), "repo")
			o := suite.cgo.run(t, s.backup(repo, "--codec", []string{"lz4", "zstd"}[i%2])...)
			if o.code != 6 || !strings.Contains(o.stderr, "no space left") || !strings.Contains(o.stderr, repo) {
				t.Fatalf("got exit code %d, %q, want 6, the reason and the place", o.code, o.stderr)
			}
			s.unlocked()
			if _, err := os.Stat(repo); err == nil && size > 64 {
				nothingNew(t, repo, 0)
				if names := fileNames(t, repo); len(names) > 1 {
					t.Errorf("left on the full disk: %q", names)
				}
			}
		})
	}
	t.Run("one of two", func(t *testing.T) {
		repo := filepath.Join(smallDisk(t, 2000), "repo")
		o := suite.cgo.run(t, s.backup(repo, "--repo", other, "--codec", "none")...)
		if o.code == 0 || !strings.Contains(o.stderr, repo) {
			t.Errorf("got exit code %d, %q, want a failure that names %s", o.code, o.stderr, repo)
		}
		t.Logf("exit code %d: %s", o.code, o.stderr)
		nothingNew(t, repo, 0)
		nothingNew(t, other, 1)
		suite.cgo.must(t, "verify", "--level", "read", "--repo", other)
	})
}

// TestTargetFull restores to disks that are too small: refused before anything is made; and when told not to look, it
// fails with the mark in place, and goes on once there is room.
func TestTargetFull(t *testing.T) {
	s := source.get(t)
	want := s.account()
	repo := filepath.Join(t.TempDir(), "repo")
	suite.cgo.must(t, s.backup(repo)...)
	disk := smallDisk(t, 30<<10)
	target := filepath.Join(disk, "data")
	command := []string{"restore", "--repo", repo, "--server", "e2e", "--target-dir", target}
	o := suite.cgo.run(t, command...)
	if o.code != 6 || !strings.Contains(o.stderr, "bytes free") {
		t.Errorf("got exit code %d, %q, want 6 and the free space", o.code, o.stderr)
	}
	if names := fileNames(t, disk); len(names) != 0 {
		t.Errorf("made before the space was looked at: %q", names)
	}
	o = suite.cgo.run(t, append(command, "--skip-space-check")...)
	if o.code != 6 || !strings.Contains(o.stderr, mark) {
		t.Errorf("got exit code %d, %q, want 6 and the mark", o.code, o.stderr)
	}
	if _, err := os.Stat(filepath.Join(target, mark)); err != nil {
		t.Errorf("mark: %v", err)
	}
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT, "size=400m"); err != nil {
		t.Fatal(err)
	}
	suite.cgo.must(t, command...)
	noMark(t, target)
	same(t, "restored server", startOn(t, target).account(), want)
}
