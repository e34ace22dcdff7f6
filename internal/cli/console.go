package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mbwrap/mbwrap/internal/progress"
)

// console is where a run speaks to people: standard error, and the log file. Its methods are safe for concurrent use.
type console struct {
	env     *Env
	mode    progress.Mode
	talk    bool // notes are wanted
	verbose bool
	quiet   bool

	mu   sync.Mutex // guards all below
	err  io.Writer  // standard error, past the bar while there is one
	file *os.File   // nil: none
	lost error      // the first failure to write file
}

// openConsole makes the console that the flags in c ask for.
func openConsole(env *Env, c *common) (*console, error) {
	mode, err := progress.ParseMode(c.Progress)
	if err != nil {
		return nil, &usageError{err: err}
	}
	if c.Quiet && mode == progress.Auto {
		mode = progress.None
	}
	k := &console{env: env, mode: mode, verbose: c.Verbose, quiet: c.Quiet, err: env.Stderr}
	k.talk = !c.Quiet && (c.Verbose || env.StderrTTY && !c.JSON)
	if c.LogFile == "" {
		return k, nil
	}
	k.file, err = os.OpenFile(c.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, &usageError{err: errorf("open log file: %w", err), hint: "is the directory there, and writable?"}
	}
	return k, nil
}

// close closes the log file.
func (k *console) close() error {
	if k == nil || k.file == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.file.Close(); err != nil && k.lost == nil {
		k.lost = err
	}
	k.file = nil
	if k.lost != nil {
		return errorf("write log file: %w", k.lost)
	}
	return nil
}

// say writes a message, which may have several lines, to the log file and, if shown, to standard error.
func (k *console) say(shown bool, message string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	message = strings.TrimRight(message, "\n") + "\n"
	if k.file != nil {
		k.log(message)
	}
	if shown {
		_, _ = io.WriteString(k.err, message) // nowhere is left to complain to
	}
}

// log appends to the file, each line with the time. The caller holds k.mu.
func (k *console) log(message string) {
	stamp := k.env.Now().UTC().Format(time.RFC3339) + " "
	var text strings.Builder
	for line := range strings.Lines(message) {
		text.WriteString(stamp + line)
	}
	if _, err := k.file.WriteString(text.String()); err != nil && k.lost == nil {
		k.lost = err
	}
}

// console returns the run's console; a command's function that a test calls directly gets a plain one.
func (e *Env) console() *console {
	if e.out == nil {
		e.out = &console{env: e, mode: progress.None, err: e.Stderr}
	}
	return e.out
}

// notef tells what was done: on a terminal, or with -v. A summary is notes.
func (e *Env) notef(format string, args ...any) {
	k := e.console()
	k.say(k.talk, fmt.Sprintf(format, args...))
}

// detailf tells what only -v asks for.
func (e *Env) detailf(format string, args ...any) {
	k := e.console()
	k.say(k.talk && k.verbose, fmt.Sprintf(format, args...))
}

// warnf tells something that someone should read, though the run goes on. The words "error" and "failed" are for runs
// that did fail.
func (e *Env) warnf(format string, args ...any) {
	k := e.console()
	k.say(!k.quiet, "warning: "+fmt.Sprintf(format, args...))
}

// progress starts showing how far the run is; the caller must call end, after which lines go straight to standard
// error again. total is in raw bytes, 0 if unknown.
func (e *Env) progress(title string, total int64) (r *progress.Reporter, end func()) {
	k := e.console()
	r = progress.New(progress.Options{Mode: k.mode, Out: e.Stderr, IsTerminal: e.StderrTTY, Total: total, Title: title})
	lines := r.Writer()
	k.mu.Lock()
	before := k.err
	k.err = lines
	k.mu.Unlock()
	return r, sync.OnceFunc(func() {
		r.Done()
		k.mu.Lock()
		defer k.mu.Unlock()
		_ = lines.Close() // say writes whole lines: nothing is held
		k.err = before
	})
}
