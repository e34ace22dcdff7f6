package mariadb

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mbwrap/mbwrap/mariadb/internal/process"
	"github.com/mbwrap/mbwrap/mariadb/version"
)

// Phases of a run, in order; a tool before 10.11.8 goes from PhaseCopy to PhaseBlockCommit directly. PhaseFlush to
// PhaseEnd are the server's backup stages. While in PhaseBlockDDL the server holds up changes of tables, and in
// PhaseBlockCommit every commit.
const (
	PhaseConnect     = "CONNECT"
	PhaseCopy        = "COPY" // the stage START, or none
	PhaseFlush       = "FLUSH"
	PhaseBlockDDL    = "BLOCK_DDL"
	PhaseBlockCommit = "BLOCK_COMMIT"
	PhaseEnd         = "END"
	PhaseFinish      = "FINISH" // all is unlocked
)

// Kinds of events.
const (
	EventPhase    = "phase"    // Phase begins; the tool may be waiting for the server's lock
	EventLocked   = "locked"   // the server has granted the lock of Phase
	EventUnlocked = "unlocked" // all locks are gone
	EventFile     = "file"     // File is being sent
	EventScanned  = "scanned"  // the redo log has been read up to LSN
	EventWarning  = "warning"
	EventError    = "error"
)

// Event is something the tool said. Fields that don't belong to its kind are empty.
type Event struct {
	Kind  string
	Time  time.Time
	Phase string // the phase it happened in
	File  string
	LSN   uint64
	Text  string // what the tool said, without its time stamp
	Hint  string // what to do, if the message is a known one
}

// Phase is one phase of a run and how long it took, waiting for the server's lock included.
type Phase struct {
	Name     string
	Start    time.Time
	Duration time.Duration
	Wait     time.Duration // until the server granted the lock
}

// Report is what is known about a run of the tool; complete once it has ended.
type Report struct {
	Started, Ended time.Time // Ended is zero while it runs
	ExitCode       int       // -1 while it runs, and if a signal ended it
	Signal         string    // such as "killed", "" if none did
	Stopped        bool      // we ended it
	Completed      bool      // it said "completed OK!"

	// Errors and Warnings are what it said, as it said it; each holds the first hundred.
	Errors, Warnings []string
	// Cause and Hint explain the first error that is known: what happened, and what to do.
	Cause, Hint string

	Phases []Phase
	// DDLBlocked and CommitsBlocked say how long the server held up changes of tables, and commits.
	DDLBlocked, CommitsBlocked time.Duration

	Tool, Server     version.Number
	Files            int
	CheckpointLSN    uint64 // where the next incremental starts
	RedoFrom, RedoTo uint64 // the redo log that was copied
	PageRetries      int    // pages that were read again because their checksum was wrong

	Tail   []string // the last messages but those about single files
	LogErr error    // why the log writer got no more, if it failed

	known string // the message that Cause explains
}

const (
	mostLines = 100 // of errors, of warnings
	tailLines = 30
)

// tracker turns messages into a report and events. Its methods may be called from several goroutines.
type tracker struct {
	onEvent func(Event)

	mu        sync.Mutex
	report    Report
	phase     string
	staged    bool // the tool has named a backup stage
	ddlSince  time.Time
	commSince time.Time
}

func newTracker(onEvent func(Event)) *tracker {
	now := time.Now()
	return &tracker{
		onEvent: onEvent, phase: PhaseConnect,
		report: Report{Started: now, ExitCode: -1, Phases: []Phase{{Name: PhaseConnect, Start: now}}},
	}
}

// message takes the next message. Events are reported outside the lock, in order.
func (t *tracker) message(msg string) {
	text, level := parseMessage(msg)
	now := time.Now()
	t.mu.Lock()
	var events []Event
	if file := fileOf(text); file != "" && level == levelNote {
		events = t.file(file, now)
	} else {
		events = t.note(text, level, now)
	}
	t.mu.Unlock()
	if t.onEvent == nil {
		return
	}
	for _, e := range events {
		t.onEvent(e)
	}
}

func (t *tracker) file(name string, now time.Time) []Event {
	var events []Event
	if t.phase == PhaseConnect {
		events = append(events, t.enter(PhaseCopy, now))
	}
	t.report.Files++
	return append(events, Event{Kind: EventFile, Time: now, Phase: t.phase, File: name})
}

// note takes a message that is not about a single file.
func (t *tracker) note(text string, level level, now time.Time) []Event {
	if text == "...done" {
		return nil
	}
	line := process.Clip(text)
	t.report.Tail = append(t.report.Tail, line)
	if n := len(t.report.Tail); n > tailLines {
		t.report.Tail = slices.Delete(t.report.Tail, 0, n-tailLines)
	}
	hint := t.explain(text)
	switch level {
	case levelError:
		t.report.Errors = appendLine(t.report.Errors, text)
		return []Event{{Kind: EventError, Time: now, Phase: t.phase, Text: process.Clip(text), Hint: hint}}
	case levelWarning:
		t.report.Warnings = appendLine(t.report.Warnings, text)
		return []Event{{Kind: EventWarning, Time: now, Phase: t.phase, Text: process.Clip(text), Hint: hint}}
	}
	t.numbers(text)
	return t.stage(text, now)
}

func appendLine(lines []string, line string) []string {
	if len(lines) >= mostLines {
		return lines
	}
	return append(lines, process.Clip(line))
}

// explain looks the message up among the known ones. The first that is found explains the run.
func (t *tracker) explain(text string) string {
	k := lookUp(text)
	if k == nil {
		return ""
	}
	cause, hint := k.explain(t.report.Tool)
	if t.report.Cause == "" && !k.minor {
		t.report.Cause, t.report.Hint, t.report.known = cause, hint, process.Clip(text)
	}
	return hint
}

// stage follows the backup stages. Words in front of the stage differ between versions.
func (t *tracker) stage(text string, now time.Time) []Event {
	if text == "All tables unlocked" {
		t.unlock(now)
		return []Event{{Kind: EventUnlocked, Time: now, Phase: t.phase}, t.enter(PhaseFinish, now)}
	}
	verb, name, ok := strings.Cut(text, "BACKUP STAGE ")
	switch {
	case text == "Acquiring BACKUP LOCKS..." && !t.staged:
		// Before 10.11.8 there is one lock, and nobody says when it is granted.
		e := t.enter(PhaseBlockCommit, now)
		t.ddlSince, t.commSince = now, now
		return []Event{e, {Kind: EventLocked, Time: now, Phase: t.phase}}
	case strings.Contains(text, ">> log scanned up to ("):
		return []Event{{Kind: EventScanned, Time: now, Phase: t.phase, LSN: numberAfter(text, "scanned up to (")}}
	case !ok:
		return nil
	case name == "START":
		name = PhaseCopy
	}
	t.staged = true
	switch strings.TrimSpace(verb) {
	case "Starting", "Started":
		if t.phase != name {
			return []Event{t.enter(name, now)}
		}
	case "Acquired locks for":
		return []Event{t.granted(name, now)}
	}
	return nil
}

// enter begins a phase.
func (t *tracker) enter(name string, now time.Time) Event {
	t.closePhase(now)
	t.phase = name
	t.report.Phases = append(t.report.Phases, Phase{Name: name, Start: now})
	return Event{Kind: EventPhase, Time: now, Phase: name}
}

func (t *tracker) closePhase(now time.Time) {
	p := &t.report.Phases[len(t.report.Phases)-1]
	p.Duration = now.Sub(p.Start)
}

// granted notes that the server gave the lock of the phase.
func (t *tracker) granted(name string, now time.Time) Event {
	p := &t.report.Phases[len(t.report.Phases)-1]
	p.Wait = now.Sub(p.Start)
	if name == PhaseBlockDDL {
		t.ddlSince = now
	}
	if name == PhaseBlockCommit {
		t.commSince = now
	}
	return Event{Kind: EventLocked, Time: now, Phase: t.phase}
}

// unlock notes that the locks are gone: the server drops them when the connection ends, too.
func (t *tracker) unlock(now time.Time) {
	if !t.ddlSince.IsZero() {
		t.report.DDLBlocked = now.Sub(t.ddlSince)
	}
	if !t.commSince.IsZero() {
		t.report.CommitsBlocked = now.Sub(t.commSince)
	}
	t.ddlSince, t.commSince = time.Time{}, time.Time{}
}

// numbers picks out of an ordinary message what the report holds.
func (t *tracker) numbers(text string) {
	r := &t.report
	switch {
	case strings.HasSuffix(text, "completed OK!"):
		r.Completed = true
	case strings.HasPrefix(text, "Using server version "):
		r.Server = version.Parse(text)
	case strings.Contains(text, " based on MariaDB server "):
		r.Tool = version.Parse(text)
	case strings.Contains(text, "The latest check point (for incremental): "):
		r.CheckpointLSN = numberAfter(text, "(for incremental): '")
	case strings.HasPrefix(text, "Redo log (from LSN "):
		r.RedoFrom, r.RedoTo = numberAfter(text, "from LSN "), numberAfter(text, " to ")
	case strings.Contains(text, "page corruption detected at page") && strings.Contains(text, "retrying"):
		r.PageRetries++
	}
}

// numberAfter returns the number that stands behind label, 0 if there is none.
func numberAfter(text, label string) uint64 {
	_, rest, _ := strings.Cut(text, label)
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	n, _ := strconv.ParseUint(rest, 10, 64)
	return n
}

// finish notes the end of the run.
func (t *tracker) finish(set func(*Report)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.closePhase(now)
	t.unlock(now)
	t.report.Ended = now
	set(&t.report)
}

// snapshot returns a copy that the caller may keep.
func (t *tracker) snapshot() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.report
	r.Errors, r.Warnings = slices.Clone(r.Errors), slices.Clone(r.Warnings)
	r.Phases, r.Tail = slices.Clone(r.Phases), slices.Clone(r.Tail)
	return r
}
