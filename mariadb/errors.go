package mariadb

import (
	"fmt"
	"slices"
	"strings"
)

// ToolError says that a run of the tool failed.
type ToolError struct {
	Tool     string   // its name, without folders
	Exit     int      // its exit code; -1 if a signal ended it
	Signal   string   // such as "killed", "" if none
	Stopped  bool     // we ended it; Err then says why, if the context was the reason
	Line     string   // the message that tells most, as the tool wrote it
	Cause    string   // what happened in plain words, "" if the messages are unknown
	Hint     string   // what to do, with Cause
	Messages []string // the last ones
	Err      error    // what callers may match, or nil
}

func (e *ToolError) Error() string {
	var b strings.Builder
	b.WriteString(e.Tool)
	switch {
	case e.Stopped:
		b.WriteString(" was stopped")
	case e.Signal != "":
		fmt.Fprintf(&b, " was ended by a signal: %s", e.Signal)
	case e.Exit == 0 && e.Err != nil:
		b.WriteString(" ended")
	case e.Exit == 0:
		b.WriteString(` ended without "completed OK!"`)
	default:
		fmt.Fprintf(&b, " ended with exit status %d", e.Exit)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Stopped {
		return b.String() // what it said while dying explains nothing
	}
	if e.Cause != "" {
		fmt.Fprintf(&b, ": %s", e.Cause)
	}
	if e.Line != "" {
		fmt.Fprintf(&b, ": it said %q", e.Line)
	}
	return b.String()
}

// Unwrap returns what callers may match, such as context.Canceled.
func (e *ToolError) Unwrap() error { return e.Err }

// SuspectError says that the tool claimed success after it had reported errors. What it wrote must not be taken for a
// whole backup.
type SuspectError struct {
	Tool  string
	Lines []string // the errors, as the tool wrote them
	Cause string
	Hint  string
}

func (e *SuspectError) Error() string {
	cause := ""
	if e.Cause != "" {
		cause = e.Cause + ": "
	}
	return fmt.Sprintf("%s claims success but reported errors: %sit said %q", e.Tool, cause, strings.Join(e.Lines, " | "))
}

// verdict turns a finished run into its error: nil only when it ended well, said so, and reported no error.
func (r *Report) verdict(tool string, acceptErrors bool) error {
	switch {
	case r.Stopped || r.Signal != "" || r.ExitCode != 0 || !r.Completed:
		return &ToolError{
			Tool: tool, Exit: r.ExitCode, Signal: r.Signal, Stopped: r.Stopped, Line: r.lastLine(),
			Cause: r.Cause, Hint: r.Hint, Messages: r.Tail,
		}
	case len(r.Errors) > 0 && !acceptErrors:
		return &SuspectError{Tool: tool, Lines: r.Errors, Cause: r.Cause, Hint: r.Hint}
	}
	return nil
}

// lastLine is the message that tells most about a failure: one that is known, else the first error (the others tend to
// follow from it), else the last thing that was said which is not about the tool's own end.
func (r *Report) lastLine() string {
	if r.known != "" {
		return r.known
	}
	if len(r.Errors) > 0 {
		return r.Errors[0]
	}
	for _, line := range slices.Backward(r.Tail) {
		if !slices.ContainsFunc(lastWords, func(words string) bool { return strings.Contains(line, words) }) {
			return line
		}
	}
	return ""
}

// lastWords are said at the end of every run that fails, and explain nothing.
var lastWords = []string{"InnoDB: Starting shutdown", "Stopping log copying thread", "backup process is finished with error"}
