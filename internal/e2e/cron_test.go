package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/internal/testenv"
)

// TestCron runs every command as the poorest cron would: no environment at all, not even PATH and HOME, in "/". Nothing
// is said, and the exit code is 0.
func TestCron(t *testing.T) {
	s := source.get(t)
	repo, target := filepath.Join(t.TempDir(), "repo"), filepath.Join(shortDir(t), "data")
	bare := call{env: []string{}, dir: "/"}
	env := testenv.Need(t, "env")
	at := []string{"--repo", repo, "--server", "e2e"}
	silent := func(args ...string) {
		t.Helper()
		o := program(env).start(t, bare, append([]string{"-i", "PATH=", string(suite.cgo)}, args...)...).wait()
		if o.code != 0 || o.stdout+o.stderr != "" {
			t.Errorf("%q: got exit code %d, %q, %q, want 0 and silence", args, o.code, o.stdout, o.stderr)
		}
	}
	silent(s.backup(repo)...)
	silent(s.backup(repo, "--verify", "read")...)
	silent(append(at, "verify", "--all")...)
	silent(append(at, "verify", "--level", "hash")...)
	silent(append(at, "restore", "--target-dir", target)...)
	for _, args := range [][]string{{"list"}, {"show", "latest"}, {"files", "latest"}, {"howto", "latest"}, {"version"}} {
		if args[0] != "version" {
			args = append(args, at...)
		}
		if o := suite.cgo.mustCall(t, bare, args...); o.stdout == "" {
			t.Errorf("%q: no output", args)
		}
	}
	if o := suite.cgo.start(t, bare, append(s.flags(), "check", "--repo", repo)...).wait(); o.code != 0 && o.code != 3 && o.code != 9 {
		t.Errorf("check: got exit code %d, %q", o.code, o.stderr)
	}
	startOn(t, target)
}

// TestOtherUsersRepository writes and reads a repository that belongs to somebody else, and reads one that is mounted
// read-only: verify can't record its result there, and says so.
func TestOtherUsersRepository(t *testing.T) {
	nobody := credential(t, "nobody")
	s := source.get(t)
	dir := shortDir(t)
	repo := filepath.Join(dir, "repo")
	suite.cgo.must(t, s.backup(repo)...)
	before := tree(t, repo)
	stranger := call{as: nobody, dir: "/"}
	at := []string{"--repo", repo, "--server", "e2e"}
	fails := func(args ...string) {
		t.Helper()
		o := suite.cgo.start(t, stranger, append(at, args...)...).wait()
		if o.code == 0 || o.code == 2 || !strings.Contains(o.stderr, "permission denied") {
			t.Errorf("%q: got exit code %d, %q, want a failure for want of permission", args, o.code, o.stderr)
		}
	}
	// By default nobody else may even look.
	fails("list")
	fails("verify")
	open(t, repo)
	suite.cgo.mustCall(t, stranger, append(at, "list")...)
	o := suite.cgo.start(t, stranger, append(at, "verify")...).wait()
	if o.code != 0 && o.code != 3 || !strings.Contains(o.stderr, "could not be recorded") {
		t.Errorf("verify: got exit code %d, %q, want a warning", o.code, o.stderr)
	}
	t.Logf("verify as another user: %d, %s", o.code, o.stderr)
	fails("backup", "--skip-check", "--tool", fakeTool(t, "/dev/null"))
	for name, size := range tree(t, repo) {
		if before[name] != size {
			t.Errorf("%s has changed", name)
		}
	}
}

// TestReadOnlyRepository reads a repository on a file system that nobody can write to.
func TestReadOnlyRepository(t *testing.T) {
	s := source.get(t)
	disk := smallDisk(t, 40<<10)
	repo := filepath.Join(disk, "repo")
	suite.cgo.must(t, s.backup(repo)...)
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	at := []string{"--repo", repo, "--server", "e2e"}
	for _, args := range [][]string{{"list"}, {"show", "latest"}, {"files", "latest"}, {"cat", "latest"}, {"howto", "latest"},
		{"restore", "--target-dir", filepath.Join(shortDir(t), "data")}} {
		suite.pure.must(t, append(at, args...)...)
	}
	o := suite.cgo.run(t, append(at, "verify", "--level", "read")...)
	if o.code != 0 && o.code != 3 || !strings.Contains(o.stderr, "could not be recorded") || !strings.Contains(o.stderr, "read-only") {
		t.Errorf("verify: got exit code %d, %q, want a warning", o.code, o.stderr)
	}
	t.Logf("verify: %d, %s", o.code, o.stderr)
	if o := suite.cgo.run(t, s.backup(repo)...); o.code != 6 || !strings.Contains(o.stderr, "read-only") {
		t.Errorf("backup: got exit code %d, %q, want 6 and the reason", o.code, o.stderr)
	}
}

// tree lists sizes by name.
func tree(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	sizes := map[string]int64{}
	for _, name := range fileNames(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		sizes[name] = info.Size()
	}
	return sizes
}

// open lets everybody read what is below dir.
func open(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("chmod", "-R", "a+rX", dir, filepath.Dir(dir)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
