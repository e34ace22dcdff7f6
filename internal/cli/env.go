package cli

import (
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Env is the world a command runs in. A test makes its own; the program uses System. Main works on a copy, so one Env
// may serve several calls one after the other.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer // data and reports only
	Stderr io.Writer

	Environ []string // NAME=value, as os.Environ

	StdinTTY, StdoutTTY, StderrTTY bool // these streams are terminals

	Now        func() time.Time
	Hostname   func() (string, error)
	ConfigFile string // read if it exists and no --config is given; "" for none

	out *console // set for the time of one run
}

// System returns the process's own world.
func System() *Env {
	return &Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ:    os.Environ(),
		StdinTTY:   isTerminal(os.Stdin),
		StdoutTTY:  isTerminal(os.Stdout),
		StderrTTY:  isTerminal(os.Stderr),
		Now:        time.Now,
		Hostname:   os.Hostname,
		ConfigFile: "/etc/mbwrap.yaml",
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Getenv returns the value of the variable called name, "" if it is not set. As in a shell the last one counts.
func (e *Env) Getenv(name string) string {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(e.Environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}
