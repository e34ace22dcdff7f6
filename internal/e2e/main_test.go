package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// patience bounds every wait for something that must happen soon.
const patience = 30 * time.Second

// suite is what all tests share. It is set up by TestMain, and torn down after the last test.
var suite struct {
	dir  string // holds everything, also what programs call the temporary directory
	cgo  program
	pure program
	gen  string // makes a stream without a server
}

// builds are the two programs, each of which reads what the other has written.
func builds() []program { return []program{suite.cgo, suite.pure} }

func TestMain(m *testing.M) {
	code, err := runSuite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func runSuite(m *testing.M) (code int, err error) {
	if suite.dir, err = makeDir(); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(suite.dir)) }()
	if err := errors.Join(os.Chmod(suite.dir, 0o711), os.Setenv("TMPDIR", suite.dir)); err != nil {
		return 1, err
	}
	if err := build(); err != nil {
		return 1, err
	}
	code = m.Run()
	return code, errors.Join(source.close(), goleak.Find(), leftBehind())
}

// memoryNeeded is how much room the tests want in a file system in memory.
const memoryNeeded = 4 << 30

// makeDir makes a directory with a short name, as sockets live below it, in memory where there is room: most tests start
// and throw away servers by the dozen. Those that need a disk ask for one.
func makeDir() (string, error) {
	const memory = "/dev/shm"
	var disk unix.Statfs_t
	if err := unix.Statfs(memory, &disk); err == nil && disk.Bavail*uint64(disk.Bsize) >= memoryNeeded {
		if dir, err := os.MkdirTemp(memory, "e2e-"); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp("/tmp", "e2e-")
}

// build builds the programs, at the same time.
func build() error {
	const module = "github.com/mbwrap/mbwrap"
	at := func(name string) string { return filepath.Join(suite.dir, name) }
	suite.cgo, suite.pure, suite.gen = program(at("cgo")), program(at("pure")), at("gen")
	all := []struct{ path, pkg, cgo string }{
		{at("cgo"), module, "1"}, {at("pure"), module, "0"}, {at("gen"), module + "/internal/gendata/genstream", "0"},
	}
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, b := range all {
		group.Go(func() {
			cmd := exec.Command("go", "build", "-o", b.path, b.pkg)
			cmd.Env = append(os.Environ(), "CGO_ENABLED="+b.cgo)
			if out, err := cmd.CombinedOutput(); err != nil {
				errs[i] = fmt.Errorf("build %s: %w: %s", b.pkg, err, out)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// leftBehind tells what is still running or lying about after all tests.
func leftBehind() error {
	var errs []error
	for pid, line := range processes() {
		if strings.Contains(line, suite.dir) {
			errs = append(errs, fmt.Errorf("left running: %d %s", pid, line))
		}
	}
	names, err := filepath.Glob(filepath.Join(suite.dir, "mbwrap-*"))
	for _, name := range names {
		errs = append(errs, fmt.Errorf("left behind: %s", name))
	}
	return errors.Join(append(errs, err)...)
}

// processes lists the command lines of everything that runs and is no zombie, ourselves left out.
func processes() map[int]string {
	all := map[int]string{}
	entries, _ := os.ReadDir("/proc") // without it nothing can be told
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && len(line) > 0 {
			all[pid] = strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " ")
		}
	}
	return all
}
