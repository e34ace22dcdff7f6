package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// screen prints the steps as they happen. It belongs to one goroutine.
type screen struct {
	out    io.Writer
	colour bool
	step   int
}

func newScreen(out io.Writer, colour bool) *screen { return &screen{out: out, colour: colour} }

// The few styles in use, as parameters of the terminal's colour sequence.
const (
	bold  = "1"
	faint = "2"
	red   = "31;1"
	green = "32;1"
	blue  = "36"
)

func (s *screen) paint(style, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (s *screen) title(text string) {
	fmt.Fprintf(s.out, "\n%s\n", s.paint(bold, text))
}

// begin announces the next step and returns a function that says how long it took.
func (s *screen) begin(format string, args ...any) (done func()) {
	s.step++
	fmt.Fprintf(s.out, "\n%s %s\n", s.paint(bold, fmt.Sprintf("%2d.", s.step)), s.paint(bold, fmt.Sprintf(format, args...)))
	started := time.Now()
	return func() { s.note("%s", seconds(time.Since(started))) }
}

// command shows a command line as a user would type it.
func (s *screen) command(args []string) {
	fmt.Fprintf(s.out, "    %s\n", s.paint(blue, "$ "+strings.Join(args, " ")))
}

// say prints a line of a step.
func (s *screen) say(format string, args ...any) {
	fmt.Fprintf(s.out, "    %s\n", fmt.Sprintf(format, args...))
}

// note prints a line that matters less.
func (s *screen) note(format string, args ...any) {
	fmt.Fprintf(s.out, "    %s\n", s.paint(faint, fmt.Sprintf(format, args...)))
}

// indent is a writer that sets the output of a program off by four spaces.
type indent struct {
	out    io.Writer
	inside bool // in a line that was begun already
}

func (w *indent) Write(p []byte) (int, error) {
	var b []byte
	for _, c := range p {
		if !w.inside && c != '\n' {
			b = append(b, "    "...)
		}
		w.inside = c != '\n'
		b = append(b, c)
	}
	if _, err := w.out.Write(b); err != nil {
		return 0, err
	}
	return len(p), nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// megabytes formats a number of bytes, 1 MB being 10^6 of them.
func megabytes(n int64) string { return fmt.Sprintf("%.0f MB", float64(n)/1e6) }

// rate formats bytes in a time.
func rate(n int64, d time.Duration) string {
	return fmt.Sprintf("%.0f MB/s", float64(n)/1e6/max(d.Seconds(), 1e-3))
}
