package mariadb

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/mariadb/internal/process"
)

const (
	// pipeSize is asked for the pipe the stream comes through; the system may allow less.
	pipeSize = 1 << 20
	// defaultGrace is the time between SIGINT and SIGKILL.
	defaultGrace = 10 * time.Second
	// lingerDelay is how long an output may stay open, and silent, after the tool has ended: something else holds it.
	lingerDelay = 2 * time.Second
)

// Process is a run of the tool, and an io.Reader of its stream. Read belongs to one goroutine; Stop and Report may be
// called from any.
type Process struct {
	tool    string
	child   *process.Child
	grace   time.Duration
	accept  bool
	out     *os.File
	tracker *tracker

	outDone   func()        // stdout is at its end or given up; may be called again
	outEnded  chan struct{} // closed by outDone
	done      chan struct{} // closed when the run is over and reported
	lost      chan struct{} // closed when the tool would not die
	stopping  atomic.Bool
	held      atomic.Bool // the stream was given up because something else held it open
	stopMu    sync.Mutex
	stopCause error // guarded by stopMu; set before stopping
	stopOnce  sync.Once
	stopErr   error
	unhook    func() bool // takes back the stop at the context's end
	err       error       // what Read ends with; set before done
}

// runOptions are what backup and prepare have in common.
type runOptions struct {
	nice         int
	grace        time.Duration
	log          io.Writer
	onEvent      func(Event)
	secrets      []string
	warnings     []string
	acceptErrors bool
}

// startProcess runs cmd with its stdout as the stream and its stderr as messages.
func startProcess(ctx context.Context, cmd *exec.Cmd, o runOptions) (*Process, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer outW.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, outR.Close())
	}
	defer errW.Close()
	growPipe(outR)
	cmd.Stdout, cmd.Stderr = outW, errW
	p := &Process{
		tool: filepath.Base(cmd.Path), grace: o.grace, accept: o.acceptErrors, out: outR, tracker: newTracker(o.onEvent),
		outEnded: make(chan struct{}), done: make(chan struct{}), lost: make(chan struct{}),
	}
	if p.grace == 0 {
		p.grace = defaultGrace
	}
	p.tracker.report.Warnings = o.warnings
	p.outDone = sync.OnceFunc(func() { close(p.outEnded) })
	if p.child, err = process.Start(cmd, o.nice); err != nil {
		return nil, errors.Join(err, outR.Close(), errR.Close())
	}
	messages := &lines{log: o.log, message: p.tracker.message, secrets: o.secrets}
	p.unhook = context.AfterFunc(ctx, func() { _ = p.stop(context.Cause(ctx)) })
	go p.follow(errR, messages)
	return p, nil
}

// growPipe lets the tool run ahead of a reader that is busy for a moment. It is no loss where it is not allowed.
func growPipe(f *os.File) {
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
}

// follow reads the messages to their end, waits until the stream is at its end as well, and closes the run.
func (p *Process) follow(errR *os.File, messages *lines) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		drain(messages, errR)
		messages.close()
	}()
	<-p.child.Exited
	p.limitRead()
	_ = errR.SetReadDeadline(time.Now().Add(lingerDelay))
	<-p.outEnded
	<-said
	_ = errR.Close() // only read from
	p.child.Release()
	<-p.child.Reaped
	_ = p.out.Close()
	p.conclude(messages.logErr)
	p.unhook()
	close(p.done)
}

// drain copies until the pipe's end. A deadline, which is set once the tool has ended, only ends it when nothing is left
// to read: whoever takes the messages may have been slow.
func drain(dst *lines, src *os.File) {
	buf := make([]byte, 32<<10)
	last := false
	for {
		n, err := src.Read(buf)
		_, _ = dst.Write(buf[:n]) // can't fail
		switch {
		case n > 0:
			last = false
		case errors.Is(err, os.ErrDeadlineExceeded) && !last:
			last = true
			_ = src.SetReadDeadline(time.Now().Add(lingerDelay / 50))
		case err != nil:
			return
		}
	}
}

// limitRead gives up on the stream when it stays silent too long after the tool's end.
func (p *Process) limitRead() {
	wait := lingerDelay
	if p.stopping.Load() {
		wait = 0
		p.outDone()
	}
	_ = p.out.SetReadDeadline(time.Now().Add(wait))
}

// conclude writes the end into the report and decides what Read returns.
func (p *Process) conclude(logErr error) {
	state := p.child.Cmd.ProcessState
	p.tracker.finish(func(r *Report) {
		r.Stopped, r.LogErr = p.stopping.Load(), logErr
		if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			r.Signal = status.Signal().String()
			return
		}
		r.ExitCode = state.ExitCode()
	})
	report := p.Report()
	p.err = report.verdict(p.tool, p.accept)
	if failure, ok := p.err.(*ToolError); ok && report.Stopped {
		p.stopMu.Lock()
		failure.Err = p.stopCause
		p.stopMu.Unlock()
	}
	if p.err == nil && p.held.Load() {
		p.err = &ToolError{Tool: p.tool, Err: errHeldOpen}
	}
	if p.err == nil {
		p.err = io.EOF
	}
}

// errHeldOpen is why a run that ended well is not trusted.
var errHeldOpen = errors.New("its stream was still held open by another process after its end")

// Read reads the stream. At its end it waits until the tool has ended and returns io.EOF only if that ended well: exit
// code 0, "completed OK!" said, no error reported. Otherwise the error is a [*ToolError] or a [*SuspectError], and the
// bytes read so far are not a backup. The error stays the same in later calls.
func (p *Process) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	select {
	case <-p.outEnded:
		return 0, p.end()
	case <-p.child.Exited:
		p.limitRead()
	default:
	}
	n, err := p.out.Read(b)
	if n > 0 {
		return n, nil
	}
	if err == nil {
		return 0, nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && !p.stopping.Load() {
		p.held.Store(true)
	}
	p.outDone()
	return 0, p.end()
}

// end waits for the end of the run and returns its error.
func (p *Process) end() error {
	select {
	case <-p.done:
		return p.err
	case <-p.lost:
		return &ToolError{Tool: p.tool, Exit: -1, Stopped: true, Err: p.stopErr}
	}
}

// Stop ends the tool: SIGINT to its process group, SIGKILL after the grace time (it blocks SIGTERM). It returns when
// the tool is gone, with an error only if it would not die. A Read that waits returns. After the end of the run, or
// called again, it does nothing.
func (p *Process) Stop() error { return p.stop(nil) }

func (p *Process) stop(cause error) error {
	if isClosed(p.done) {
		return nil
	}
	p.stopOnce.Do(func() {
		if isClosed(p.outEnded) && isClosed(p.child.Exited) {
			return // all has been read, the end is what it is
		}
		p.stopMu.Lock()
		p.stopCause = cause
		p.stopMu.Unlock()
		p.stopping.Store(true)
		if p.stopErr = p.child.Stop(unix.SIGINT, p.grace); p.stopErr != nil {
			close(p.lost)
		}
		p.child.Signal(unix.SIGKILL) // the rest of the group
		p.outDone()
		_ = p.out.SetReadDeadline(time.Now())
	})
	if p.stopErr != nil {
		return p.stopErr
	}
	<-p.done
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Report returns what is known by now; all of it after Read has returned an error or Stop has returned.
func (p *Process) Report() Report { return p.tracker.snapshot() }

// PID returns the tool's process number.
func (p *Process) PID() int { return p.child.PID() }
