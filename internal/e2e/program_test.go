package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program is the path of an mbwrap.
type program string

// call says how a program is run. The zero value runs it quietly with an ordinary environment.
type call struct {
	stdin  io.Reader
	stdout io.Writer // nil: kept in the outcome
	env    []string  // nil: ours, without mbwrap's own variables
	dir    string
	as     *syscall.Credential
	rss    bool // measure the peak of the memory
}

// outcome is how a run ended.
type outcome struct {
	code   int // the exit code; minus the signal's number if one ended it
	stdout string
	stderr string
	rss    int64 // peak of the resident set, in bytes; 0 if nobody asked
	took   time.Duration
}

// running is a program in the background.
type running struct {
	t       *testing.T
	cmd     *exec.Cmd
	out     bytes.Buffer
	err     bytes.Buffer
	started time.Time
	ended   chan struct{}
	waitErr error
	peak    <-chan int64 // gives the peak of the memory once the program has ended; nil if nobody asked
}

// run runs mbwrap to its end.
func (p program) run(t *testing.T, args ...string) outcome {
	t.Helper()
	return p.start(t, call{}, args...).wait()
}

// must runs mbwrap and wants success, and silence.
func (p program) must(t *testing.T, args ...string) outcome {
	t.Helper()
	return p.mustCall(t, call{}, args...)
}

func (p program) mustCall(t *testing.T, c call, args ...string) outcome {
	t.Helper()
	o := p.start(t, c, args...).wait()
	if o.code != 0 || o.stderr != "" {
		t.Fatalf("mbwrap %s: got exit code %d and %q, want 0 and silence", strings.Join(args, " "), o.code, o.stderr)
	}
	return o
}

// start starts mbwrap. The test kills it at its end, if nobody has waited for it.
func (p program) start(t *testing.T, c call, args ...string) *running {
	t.Helper()
	r := &running{t: t, started: time.Now(), ended: make(chan struct{})}
	r.cmd = exec.Command(string(p), args...)
	r.cmd.Stdin, r.cmd.Dir, r.cmd.Env = c.stdin, c.dir, c.env
	if c.env == nil {
		r.cmd.Env = ordinaryEnv()
	}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	r.cmd.Stdout, r.cmd.Stderr = c.stdout, &r.err
	if c.stdout == nil {
		r.cmd.Stdout = &r.out
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.waitErr = r.cmd.Wait()
		close(r.ended)
	}()
	if c.rss {
		r.peak = watchMemory(r)
	}
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // most often it has ended
		<-r.ended
	})
	return r
}

// ordinaryEnv is our environment without mbwrap's own variables.
func ordinaryEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MBWRAP_") {
			env = append(env, v)
		}
	}
	return env
}

// wait waits for the end.
func (r *running) wait() outcome {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-contextFor(r.t, 3*patience).Done():
		r.t.Fatalf("%q does not end", r.cmd.Args)
	}
	var exit *exec.ExitError
	if r.waitErr != nil && !errors.As(r.waitErr, &exit) {
		r.t.Fatal(r.waitErr)
	}
	state := r.cmd.ProcessState
	o := outcome{code: state.ExitCode(), stdout: r.out.String(), stderr: r.err.String(), took: time.Since(r.started)}
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		o.code = -int(status.Signal())
	}
	if r.peak != nil {
		o.rss = <-r.peak
	}
	return o
}

// watchMemory looks at the high-water mark of a program until it ends. What the kernel tells afterwards (maxrss) is no
// use: it is never less than what the parent had when it started the program.
func watchMemory(r *running) <-chan int64 {
	peak := make(chan int64, 1)
	status := filepath.Join("/proc", strconv.Itoa(r.cmd.Process.Pid), "status")
	go func() {
		most := int64(0)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for r.running() {
			text, _ := os.ReadFile(status) // it may have ended
			_, rest, _ := strings.Cut(string(text), "VmHWM:")
			if fields := strings.Fields(rest); len(fields) > 0 {
				kib, _ := strconv.ParseInt(fields[0], 10, 64)
				most = max(most, kib<<10)
			}
			<-tick.C
		}
		peak <- most
	}()
	return peak
}

// signal sends sig to the program; it may have ended.
func (r *running) signal(sig syscall.Signal) { _ = r.cmd.Process.Signal(sig) }

// running tells whether it has not ended yet.
func (r *running) running() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// tool waits until the program has started another one, such as mariadb-backup, whose command line contains what, and
// returns its process number, 0 if the program ended first.
func (r *running) tool(what string) int {
	r.t.Helper()
	pid := 0
	r.until(func() bool {
		for _, child := range children(r.cmd.Process.Pid) {
			if strings.Contains(processes()[child], what) {
				pid = child
				return true
			}
		}
		return !r.running()
	})
	return pid
}

// until waits until done says so.
func (r *running) until(done func() bool) {
	r.t.Helper()
	eventually(r.t, done)
}

// eventually polls until done says so, and fails the test when it never does.
func eventually(t *testing.T, done func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-limit.C:
			t.Fatalf("waited %v in vain", patience)
		case <-tick.C:
		}
	}
}

// children lists the processes that pid has started.
func children(pid int) []int {
	var all []int
	tasks, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // the thread may be gone
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// alive tells whether a process runs that is no zombie.
func alive(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && len(line) > 0
}

// backupRow is what list --json tells.
type backupRow struct {
	ID       string `json:"id"`
	State    string `json:"state"`
	RawBytes int64  `json:"raw_bytes"`
	Verified *struct {
		Level string `json:"level"`
		OK    bool   `json:"ok"`
	} `json:"verified"`
}

// list lists a repository, with what is incomplete.
func list(t *testing.T, repo string) []backupRow {
	t.Helper()
	var rows []backupRow
	o := suite.cgo.must(t, "list", "--all", "--json", "--repo", repo)
	if err := json.Unmarshal([]byte(o.stdout), &rows); err != nil {
		t.Fatalf("list --json: %v: %q", err, o.stdout)
	}
	return rows
}

// fileNames lists the files below dir, by their names within it.
func fileNames(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, err = filepath.Rel(dir, name)
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// same fails the test where two sets of values differ.
func same[V comparable](t *testing.T, what string, got, want map[string]V) {
	t.Helper()
	for name, v := range want {
		if g, ok := got[name]; !ok || g != v {
			t.Errorf("%s: %q: got %v (there: %v), want %v", what, name, g, ok, v)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %q is there and should not be", what, name)
		}
	}
}

// contextFor bounds a step of a test.
func contextFor(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}
