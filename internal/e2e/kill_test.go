package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/mariadb/scratch"
)

// moments are random times up to longest. The seed is logged, so that a failure can be repeated, more or less.
func moments(t *testing.T, n int, longest time.Duration) []time.Duration {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	all := make([]time.Duration, n)
	for i := range all {
		// One in each n-th, so that early and late moments are always among them.
		all[i] = longest * time.Duration(i) / time.Duration(n)
		all[i] += time.Duration(random.Int64N(int64(longest) / int64(n)))
	}
	return all
}

// after runs do when so much time has passed, or r has ended.
func after(r *running, delay time.Duration, do func()) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		do()
	case <-r.ended:
	}
}

// usual is how long a backup of the server takes, undisturbed, from the start of the tool on.
func (s *server) usual(repo string) time.Duration {
	s.t.Helper()
	r := suite.cgo.start(s.t, call{}, s.backup(repo)...)
	r.tool("--backup")
	begun := time.Now()
	if o := r.wait(); o.code != 0 {
		s.t.Fatalf("got exit code %d: %s", o.code, o.stderr)
	}
	return time.Since(begun)
}

// spare is an environment with a temporary directory of its own.
func spare(t *testing.T) (env []string, dir string) {
	t.Helper()
	dir = shortDir(t)
	return append(ordinaryEnv(), "TMPDIR="+dir), dir
}

// nothingNew fails the test if the repository lists more than want backups, or keeps anything besides them.
func nothingNew(t *testing.T, repo string, want int) {
	t.Helper()
	if rows := list(t, repo); len(rows) != want {
		t.Errorf("got %+v, want %d backups", rows, want)
	}
	var strange []string
	for _, name := range fileNames(t, repo) {
		if base := filepath.Base(name); strings.HasPrefix(base, ".") || strings.Contains(base, "tmp") {
			strange = append(strange, name)
		}
	}
	if len(strange) > 0 {
		t.Errorf("left in the repository: %q", strange)
	}
}

// empty fails the test if dir holds anything.
func empty(t *testing.T, dir string) {
	t.Helper()
	if names := fileNames(t, dir); len(names) > 0 {
		t.Errorf("left in %s: %q", dir, names)
	}
}

// TestToolKilled ends mariadb-backup at random moments. The run fails, and leaves nothing.
func TestToolKilled(t *testing.T) {
	s := source.get(t)
	repo := filepath.Join(t.TempDir(), "repo")
	usual := s.usual(repo)
	good, hit := 1, 0
	for i, moment := range moments(t, 6, usual) {
		sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGINT}[i%2]
		t.Run(fmt.Sprintf("%v after %v", sig, moment.Round(time.Millisecond)), func(t *testing.T) {
			env, temp := spare(t)
			r := suite.cgo.start(t, call{env: env}, s.backup(repo)...)
			pid := r.tool("--backup")
			after(r, moment, func() { _ = syscall.Kill(pid, sig) })
			o := r.wait()
			switch {
			case o.code == 0:
				good++ // it was too late
			case o.code != 4 || !strings.Contains(o.stderr, "mariadb-backup"):
				t.Errorf("got exit code %d, %q, want 4 and the tool's name", o.code, o.stderr)
			default:
				hit++
			}
			s.unlocked()
			nothingNew(t, repo, good)
			empty(t, temp)
			if alive(pid) {
				t.Error("the tool still runs")
			}
		})
	}
	t.Logf("%d runs were hit, the others were done", hit)
	if hit == 0 {
		t.Error("no run was hit")
	}
	suite.cgo.must(t, "verify", "--all", "--level", "read", "--repo", repo)
}

// TestKilled ends mbwrap with SIGKILL at random moments. The tool dies with it, nothing half-made is listed, and the
// next run works.
func TestKilled(t *testing.T) {
	s := source.get(t)
	repo := filepath.Join(t.TempDir(), "repo")
	usual := s.usual(repo)
	hit := 0
	for i, moment := range moments(t, 6, usual) {
		t.Run(moment.Round(time.Millisecond).String(), func(t *testing.T) {
			program := builds()[i%2]
			r := program.start(t, call{}, s.backup(repo)...)
			pid := r.tool("--backup")
			after(r, moment, func() { r.signal(syscall.SIGKILL) })
			o := r.wait()
			if o.code == -int(syscall.SIGKILL) {
				hit++
			} else if o.code != 0 {
				t.Errorf("got exit code %d, %q, want death or success", o.code, o.stderr)
			}
			eventually(t, func() bool { return !alive(pid) })
			s.unlocked()
			for _, row := range list(t, repo) {
				if row.State != "complete" && row.State != "incomplete" {
					t.Errorf("listed: %+v", row)
				}
			}
			suite.pure.must(t, "verify", "--all", "--level", "hash", "--repo", repo)
		})
	}
	if hit == 0 {
		t.Error("no run was hit")
	}
	suite.cgo.must(t, s.backup(repo)...)
	suite.cgo.must(t, "verify", "--all", "--level", "read", "--repo", repo)
}

// TestSignals interrupts and terminates mbwrap at random moments.
func TestSignals(t *testing.T) {
	s := source.get(t)
	repo := filepath.Join(t.TempDir(), "repo")
	usual := s.usual(repo)
	good := 1
	for i, moment := range moments(t, 6, usual*8/10) {
		sig := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[i%2]
		t.Run(fmt.Sprintf("%v after %v", sig, moment.Round(time.Millisecond)), func(t *testing.T) {
			env, temp := spare(t)
			r := suite.cgo.start(t, call{env: env}, s.backup(repo)...)
			pid := r.tool("--backup")
			begun := time.Now()
			after(r, moment, func() { r.signal(sig); begun = time.Now() })
			o := r.wait()
			switch {
			case o.code == 0:
				good++ // it was too late
			case o.code != 128+int(sig):
				t.Errorf("got exit code %d, %q, want %d", o.code, o.stderr, 128+int(sig))
			}
			if took := time.Since(begun); took > 15*time.Second {
				t.Errorf("it took %v to end", took)
			}
			if alive(pid) {
				t.Error("the tool still runs")
			}
			s.unlocked()
			nothingNew(t, repo, good)
			empty(t, temp)
		})
	}
}

// TestRestoreKilled ends restores with SIGKILL at random moments, again and again into the same target, until one is
// done: the server starts on it and has everything. On what a killed restore leaves no server starts.
func TestRestoreKilled(t *testing.T) {
	s := source.get(t)
	want := s.account()
	repo := filepath.Join(t.TempDir(), "repo")
	suite.cgo.must(t, s.backup(repo)...)
	command := func(target string) []string {
		return []string{"restore", "--repo", repo, "--server", "e2e", "--target-dir", target, "--use-memory", "64MiB"}
	}
	usual := suite.cgo.must(t, command(filepath.Join(shortDir(t), "data"))...).took
	for round, program := range builds() {
		target := filepath.Join(shortDir(t), "data")
		hit := 0
		for _, moment := range moments(t, 3, usual) {
			r := program.start(t, call{}, command(target)...)
			after(r, moment, func() { r.signal(syscall.SIGKILL) })
			o := r.wait()
			if o.code == 0 {
				break
			}
			if o.code == -int(syscall.SIGKILL) {
				hit++
			} else if !strings.Contains(o.stderr, "is not empty") { // it was done but for its end
				t.Errorf("after %v: got exit code %d, %q, want death or success", moment, o.code, o.stderr)
			}
			if hit == 1 {
				noServerStarts(t, target)
			}
		}
		if o := program.run(t, command(target)...); o.code != 0 && !strings.Contains(o.stderr, "is not empty") {
			t.Fatalf("the run after the killed ones: got exit code %d, %q", o.code, o.stderr)
		}
		t.Logf("round %d: %d runs were killed", round, hit)
		noMark(t, target)
		same(t, "restored server", startOn(t, target).account(), want)
	}
}

// mark is what an unfinished restore is known by.
const mark = "mbwrap-restore.unfinished"

func noMark(t *testing.T, target string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(target, mark)); err == nil {
		t.Error("a finished restore has the mark of an unfinished one")
	}
}

// noServerStarts starts a server on a copy of the target of an unfinished restore, which must fail.
func noServerStarts(t *testing.T, target string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(target, mark)); err != nil {
		return // killed before it began, or after its end
	}
	dir := filepath.Join(shortDir(t), "data")
	if out, err := exec.Command("cp", "-a", target, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := &scratch.Server{Dir: dir, Args: fast, Timeout: patience}
	if err := s.Start(t.Context()); err == nil {
		t.Error("a server started on an unfinished restore")
		_ = s.Kill() // told already
	}
}

// TestRestoreInterrupted interrupts a restore: it says how to go on, and going on works.
func TestRestoreInterrupted(t *testing.T) {
	s := source.get(t)
	want := s.account()
	repo := filepath.Join(t.TempDir(), "repo")
	suite.cgo.must(t, s.backup(repo)...)
	target := filepath.Join(shortDir(t), "data")
	command := []string{"restore", "--repo", repo, "--server", "e2e", "--target-dir", target}
	r := suite.cgo.start(t, call{}, command...)
	// The prepare is the phase in which the tool must be stopped.
	pid := r.tool("--prepare")
	r.signal(syscall.SIGINT)
	o := r.wait()
	if o.code != 130 || !strings.Contains(o.stderr, mark) {
		t.Fatalf("got exit code %d, %q, want 130 and the mark's place", o.code, o.stderr)
	}
	if pid == 0 || alive(pid) {
		t.Errorf("mariadb-backup, process %d, still runs or never did", pid)
	}
	if _, err := os.Lstat(filepath.Join(target, mark)); err != nil {
		t.Errorf("mark: got %v, want it there", err)
	}
	noServerStarts(t, target)
	suite.cgo.must(t, command...)
	noMark(t, target)
	same(t, "restored server", startOn(t, target).account(), want)
}
