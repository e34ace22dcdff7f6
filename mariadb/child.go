package mariadb

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

// child is an outside program in its own process group that can't outlive this process: the kernel kills it when the
// thread that started it ends, and that thread is held until the program has ended.
//
// Its exit is noticed in two steps. When exited is closed the program has ended but its entry in the process table is
// still there, so that its group can be signalled without hitting a stranger. Once release is called, what is left of
// the group is killed, the entry is removed and reaped is closed.
type child struct {
	cmd      *exec.Cmd
	exited   chan struct{}
	released chan struct{}
	reaped   chan struct{}
	release  func() // may be called any number of times

	mu   sync.Mutex
	gone bool // reaped: the number may belong to somebody else
}

// deathGrace is how long a killed process may take to go before we give up waiting.
const deathGrace = 10 * time.Second

// startChild starts cmd at the given nice value (0 changes nothing). Its outputs must be files. The caller closes what
// it has passed in.
func startChild(cmd *exec.Cmd, nice int) (*child, error) {
	c := &child{cmd: cmd, exited: make(chan struct{}), released: make(chan struct{}), reaped: make(chan struct{})}
	c.release = sync.OnceFunc(func() { close(c.released) })
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if cmd.Env == nil {
		cmd.Env = withoutSecrets(cmd.Environ())
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
func (c *child) run(nice int, started chan<- error) {
	runtime.LockOSThread()
	if nice == 0 {
		defer runtime.UnlockOSThread()
	} else if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), nice); err != nil {
		started <- fmt.Errorf("set nice value %d: %w", nice, err)
		return
	}
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	for unix.Waitid(unix.P_PID, c.pid(), nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	close(c.exited)
	<-c.released
	c.reap()
}

// reap kills what is left of the group and frees the process entry.
func (c *child) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = unix.Kill(-c.pid(), unix.SIGKILL) // most often there is nobody left
	_ = c.cmd.Wait()                      // the state is kept in cmd.ProcessState
	c.gone = true
	close(c.reaped)
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// signal sends sig to the whole group, unless the program has been reaped.
func (c *child) signal(sig unix.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		_ = unix.Kill(-c.pid(), sig) // it may have ended by now
	}
}

// stop sends sig, and SIGKILL after grace, and returns when the program has exited (it need not be reaped).
func (c *child) stop(sig unix.Signal, grace time.Duration) error {
	c.signal(sig)
	if waitFor(c.exited, grace) {
		return nil
	}
	c.signal(unix.SIGKILL)
	if waitFor(c.exited, deathGrace) {
		return nil
	}
	return fmt.Errorf("process %d does not end after SIGKILL", c.pid())
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

// withoutSecrets removes our own variables, which may hold passwords, from an environment for a child.
func withoutSecrets(env []string) []string {
	kept := make([]string, 0, len(env))
	for _, v := range env {
		if !strings.HasPrefix(v, "MBWRAP_") {
			kept = append(kept, v)
		}
	}
	return kept
}

// mostFiles is as far as the limit of open files is raised. Some systems allow a thousand millions, and the tool sets up
// a table with an entry for each file it may open.
const mostFiles = 1 << 20

// raiseFileLimit lifts the soft limit of open files to the hard one, for this process and every child to come: the tool
// keeps each tablespace open. Setting it ourselves, even to what it is, keeps Go from handing the old one to children.
// It returns the new limit.
func raiseFileLimit() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	limit.Cur = min(limit.Max, mostFiles)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, os.NewSyscallError("setrlimit", err)
	}
	return limit.Cur, nil
}
