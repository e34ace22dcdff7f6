package mariadb

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"unicode"
)

const (
	// maxLine is how much text without a line end is held back, in bytes, before it is taken as it is.
	maxLine = 64 << 10
	// keepBack is what stays of such a text, so that no word and no secret is cut in two.
	keepBack = 4 << 10
	// minSecret is the shortest secret that is blotted out: shorter ones would blot out ordinary words.
	minSecret = 4
	blot      = "***"
)

// lines cuts what the tool says into messages. The tool's stderr is not a list of lines: messages are glued together,
// progress is dumped without a line end, pages are dumped as hundreds of hex lines, bytes need not be UTF-8. It is an
// io.Writer that cannot fail; secrets are blotted out before anything is passed on.
type lines struct {
	log     io.Writer        // gets all text, may be nil
	logErr  error            // the first error of log, which then gets no more
	message func(msg string) // gets each message, without line end
	secrets []string
	pending []byte
}

// Write takes the next piece of text.
func (l *lines) Write(p []byte) (int, error) {
	for n := len(p); ; {
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			l.hold(p)
			return n, nil
		}
		l.hold(p[:i])
		l.flush(len(l.pending), p[i:i+1])
		p = p[i+1:]
	}
}

// hold appends p to the text that has no end yet, giving away the front of it when it grows too long.
func (l *lines) hold(p []byte) {
	for len(p) > 0 {
		n := min(len(p), maxLine-len(l.pending))
		l.pending = append(l.pending, p[:n]...)
		p = p[n:]
		if len(l.pending) < maxLine {
			continue
		}
		l.redact()
		cut := max(0, len(l.pending)-keepBack)
		if i := bytes.LastIndexByte(l.pending[:cut], ' '); i > cut/2 {
			cut = i + 1
		}
		l.flush(cut, nil)
	}
}

// flush passes on the first n held bytes, and end after them.
func (l *lines) flush(n int, end []byte) {
	whole := n == len(l.pending)
	if whole {
		l.redact()
		n = len(l.pending)
	}
	text := l.pending[:n]
	l.tee(text)
	l.tee(end)
	for _, msg := range split(strings.ToValidUTF8(string(text), "\uFFFD")) {
		l.message(msg)
	}
	l.pending = append(l.pending[:0], l.pending[n:]...)
}

// close passes on what is left when the tool has closed its stderr.
func (l *lines) close() {
	if len(l.pending) > 0 {
		l.flush(len(l.pending), []byte("\n"))
	}
}

// tee writes to the log until that fails.
func (l *lines) tee(p []byte) {
	if l.log == nil || l.logErr != nil || len(p) == 0 {
		return
	}
	_, l.logErr = l.log.Write(p)
}

// redact blots out the secrets in the held text.
func (l *lines) redact() {
	for _, s := range l.secrets {
		if len(s) >= minSecret {
			l.pending = bytes.ReplaceAll(l.pending, []byte(s), []byte(blot))
		}
	}
}

// glue matches where a new message begins: the tool's own stamp, or InnoDB's.
var glue = regexp.MustCompile(`\[\d\d\] (?:FATAL ERROR: )?\d{4}-\d\d-\d\d +\d{1,2}:\d\d:\d\d|` +
	`\d{4}-\d\d-\d\d +\d{1,2}:\d\d:\d\d \d+ \[(?:Note|Warning|ERROR)\]`)

// split cuts a line into the messages glued together in it. Empty ones are left out.
func split(line string) []string {
	if routine(line) || !strings.Contains(line, "[") {
		return appendMessage(nil, line)
	}
	var all []string
	start := 0
	for _, at := range glue.FindAllStringIndex(line, -1) {
		all = appendMessage(all, line[start:at[0]])
		start = at[0]
	}
	return appendMessage(all, line[start:])
}

// appendMessage adds msg without the white space and the bells around it, unless nothing is left.
func appendMessage(all []string, msg string) []string {
	msg = strings.TrimFunc(msg, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	if msg == "" {
		return all
	}
	return append(all, msg)
}

// routine tells quickly that a line is one whole message of the two most frequent kinds.
func routine(line string) bool {
	const stamp = len("[00] 2026-11-30 19:50:15 ")
	if len(line) <= stamp || line[0] != '[' || line[3] != ']' || line[stamp-1] != ' ' {
		return false
	}
	rest := line[stamp:]
	return (strings.HasPrefix(rest, "Streaming ") || rest == "        ...done") && !strings.Contains(rest, "[")
}
