// Package process starts MariaDB's programs so that none of them outlives this process, under the right account, with
// none of our secrets, and finds where they are. It is the only package that starts an outside program.
package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Child is an outside program in its own process group that can't outlive this process: the kernel kills it when the
// thread that started it ends, and that thread is held until the program has ended.
//
// Its exit is noticed in two steps. When Exited is closed the program has ended but its entry in the process table is
// still there, so that its group can be signalled without hitting a stranger. Once Release is called, what is left of
// the group is killed, the entry is removed and Reaped is closed.
type Child struct {
	Cmd      *exec.Cmd
	Exited   chan struct{}
	released chan struct{}
	Reaped   chan struct{}
	Release  func() // may be called any number of times

	mu   sync.Mutex
	gone bool // reaped: the number may belong to somebody else
}

// deathGrace is how long a killed process may take to go before we give up waiting.
const deathGrace = 10 * time.Second

// Start starts cmd at the given nice value (0 changes nothing). Its outputs must be files. The caller closes what
// it has passed in.
func Start(cmd *exec.Cmd, nice int) (*Child, error) {
	c := &Child{Cmd: cmd, Exited: make(chan struct{}), released: make(chan struct{}), Reaped: make(chan struct{})}
	c.Release = sync.OnceFunc(func() { close(c.released) })
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if cmd.Env == nil {
		cmd.Env = WithoutSecrets(cmd.Environ())
	}
	started := make(chan error)
	go c.run(nice, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// run starts the program and stays with it, on one thread, until it is reaped. A thread whose priority was changed is
// thrown away with the goroutine.
func (c *Child) run(nice int, started chan<- error) {
	runtime.LockOSThread()
	if nice == 0 {
		defer runtime.UnlockOSThread()
	} else if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), nice); err != nil {
		started <- fmt.Errorf("set nice value %d: %w", nice, err)
		return
	}
	err := c.Cmd.Start()
	started <- err
	if err != nil {
		return
	}
	for unix.Waitid(unix.P_PID, c.PID(), nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	close(c.Exited)
	<-c.released
	c.reap()
}

// reap kills what is left of the group and frees the process entry.
func (c *Child) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = unix.Kill(-c.PID(), unix.SIGKILL) // most often there is nobody left
	_ = c.Cmd.Wait()                      // the state is kept in Cmd.ProcessState
	c.gone = true
	close(c.Reaped)
}

// PID returns the program's process number.
func (c *Child) PID() int { return c.Cmd.Process.Pid }

// Signal sends sig to the whole group, unless the program has been reaped.
func (c *Child) Signal(sig unix.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		_ = unix.Kill(-c.PID(), sig) // it may have ended by now
	}
}

// Stop sends sig, and SIGKILL after grace, and returns when the program has exited (it need not be reaped).
func (c *Child) Stop(sig unix.Signal, grace time.Duration) error {
	c.Signal(sig)
	if waitFor(c.Exited, grace) {
		return nil
	}
	c.Signal(unix.SIGKILL)
	if waitFor(c.Exited, deathGrace) {
		return nil
	}
	return fmt.Errorf("process %d does not end after SIGKILL", c.PID())
}

// waitFor waits for done, at most that long, and tells whether it happened.
func waitFor(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// WithoutSecrets removes our own variables, which may hold passwords, from an environment for a child.
func WithoutSecrets(env []string) []string {
	kept := make([]string, 0, len(env))
	for _, v := range env {
		if !strings.HasPrefix(v, "MBWRAP_") {
			kept = append(kept, v)
		}
	}
	return kept
}

// MostFiles is as far as the limit of open files is raised. Some systems allow a thousand millions, and the tool sets up
// a table with an entry for each file it may open.
const MostFiles = 1 << 20

// RaiseFileLimit lifts the soft limit of open files to the hard one, for this process and every child to come: the tool
// keeps each tablespace open. Setting it ourselves, even to what it is, keeps Go from handing the old one to children.
// It returns the new limit.
func RaiseFileLimit() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	limit.Cur = min(limit.Max, MostFiles)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, os.NewSyscallError("setrlimit", err)
	}
	return limit.Cur, nil
}
