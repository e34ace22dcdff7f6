package scratch

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mbwrap/mbwrap/mariadb/internal/process"
)

// crashLog is how much of the log is looked at for the reason of a server's end, in bytes.
const crashLog = 64 << 10

// reasons are in the lines of a log that may tell why a server has ended.
var reasons = []string{"[ERROR]", "[FATAL]", "Assertion failure", "Failing assertion", "got signal", "got exception"}

// tail returns the last lines of a log, on one line.
func tail(f *os.File) string {
	const most, lines = 8 << 10, 8
	all := bytes.Split(bytes.TrimSpace(end(f, most)), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte(" | ")))
}

// end returns the end of a file, as far as it can be read.
func end(f *os.File, most int64) []byte {
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	text := make([]byte, most)
	n, _ := f.ReadAt(text, max(0, info.Size()-most)) // what can be read is what can be told
	return text[:n]
}

// lastWords returns what the log says about why the server ended.
func (s *Server) lastWords() string {
	f, err := os.Open(s.logPath())
	if err != nil {
		return "it left no log"
	}
	defer f.Close()
	var last []string
	for line := range strings.SplitSeq(string(end(f, crashLog)), "\n") {
		if slices.ContainsFunc(reasons, func(word string) bool { return strings.Contains(line, word) }) {
			last = append(last, strings.TrimSpace(line))
		}
	}
	if len(last) == 0 {
		return s.logTail()
	}
	return process.Clip(strings.Join(last[max(0, len(last)-3):], " | "))
}

func (s *Server) logPath() string { return filepath.Join(s.private, "log") }

func (s *Server) logTail() string {
	f, err := os.Open(s.logPath())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	return tail(f)
}
