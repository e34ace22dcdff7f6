package mariadb

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/mariadb/version"
)

// say passes text to a tracker in pieces of the given size and returns the report and the events.
func say(text string, step int) (Report, []Event, string) {
	var events []Event
	var log bytes.Buffer
	t := newTracker(func(e Event) { events = append(events, e) })
	l := &lines{log: &log, message: t.message}
	for b := []byte(text); len(b) > 0; {
		n := min(step, len(b))
		_, _ = l.Write(b[:n])
		b = b[n:]
	}
	l.close()
	return t.snapshot(), events, log.String()
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "stderr", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFixtures reads what the real tool said, mariadb-backup 10.11.19, in runs that went well and badly.
func TestFixtures(t *testing.T) {
	for _, tt := range []struct {
		name      string
		completed bool
		errors    int
		warnings  int
		cause     string // in Report.Cause
		line      string // in the line that tells most
	}{
		{"backup-ok", true, 0, 0, "", ""},
		{"replica-info", true, 0, 1, "", ""},
		{"prepare-ok", true, 0, 0, "", ""},
		{"privilege", false, 1, 0, "lacks a privilege", "missing required privilege RELOAD"},
		{"denied", false, 0, 0, "does not let this user in", "Access denied for user"},
		{"no-socket", false, 0, 0, "no server at this socket", "Can't connect to local server"},
		{"refused", false, 0, 0, "no server at this address", "Can't connect to server on"},
		{"no-permission", false, 1, 0, "can't be entered", "Can't change dir"},
		{"unknown-option", false, 0, 0, "does not know an option", "unknown variable 'frob=1'"},
		{"redo-overwritten", false, 0, 0, "overwrote what was still needed", "Was only able to copy log"},
		{"incremental-too-old", false, 1, 0, "older than this server's data", "different innodb_undo_tablespaces"},
		{"disk-full", false, 4, 0, "a file system is full", "No space left on device"},
		{"broken-pipe", false, 2, 0, "took the backup's bytes", "Broken pipe"},
		{"corrupt", false, 2, 0, "corrupt on disk", "failed to read page after 10 retries"},
		{"corrupt-logged", true, 2, 0, "corrupt on disk", "failed to read page after 10 retries"},
		{"too-many-files", false, 6, 1, "limit of open files", "Too many open files"},
		{"prepare-short-redo", false, 1, 1, "", "ib_logfile0 is too small"},
		{"prepare-no-config", false, 1, 0, "", "Can't open backup-my.cnf"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := fixture(t, tt.name)
			r, events, log := say(text, 1000)
			if strings.TrimRight(log, "\n") != strings.TrimRight(strings.ToValidUTF8(text, "\uFFFD"), "\n") && strings.TrimRight(log, "\n") != strings.TrimRight(text, "\n") {
				t.Error("the log differs from what was said")
			}
			if r.Completed != tt.completed {
				t.Errorf("completed: got %v, want %v", r.Completed, tt.completed)
			}
			if len(r.Errors) != tt.errors || len(r.Warnings) != tt.warnings {
				t.Errorf("got errors %q, warnings %q, want %d and %d", r.Errors, r.Warnings, tt.errors, tt.warnings)
			}
			if !strings.Contains(r.Cause, tt.cause) || tt.cause == "" && r.Cause != "" {
				t.Errorf("cause: got %q, want %q in it", r.Cause, tt.cause)
			}
			if line := r.lastLine(); tt.line != "" && !strings.Contains(line, tt.line) {
				t.Errorf("line: got %q, want %q in it", line, tt.line)
			}
			small, events1, _ := say(text, 1)
			if small.Files != r.Files || len(small.Errors) != len(r.Errors) || len(events1) != len(events) {
				t.Errorf("byte by byte: got %d files, %d events, want %d, %d", small.Files, len(events1), r.Files, len(events))
			}
		})
	}
}

func TestReportOfBackup(t *testing.T) {
	r, events, _ := say(fixture(t, "backup-ok"), 4096)
	v := version.Parse("10.11.19")
	if r.Server != v || r.Tool != v {
		t.Errorf("got server %v, tool %v, want %v", r.Server, r.Tool, v)
	}
	if r.CheckpointLSN != 44404 || r.RedoFrom != 44404 || r.RedoTo != 125535 {
		t.Errorf("got checkpoint %d, redo %d to %d, want 44404, 44404, 125535", r.CheckpointLSN, r.RedoFrom, r.RedoTo)
	}
	var phases []string
	for _, p := range r.Phases {
		phases = append(phases, p.Name)
	}
	want := []string{PhaseConnect, PhaseCopy, PhaseFlush, PhaseBlockDDL, PhaseBlockCommit, PhaseEnd, PhaseFinish}
	if !slices.Equal(phases, want) {
		t.Errorf("phases: got %v, want %v", phases, want)
	}
	if r.DDLBlocked <= 0 || r.CommitsBlocked <= 0 || r.CommitsBlocked > r.DDLBlocked {
		t.Errorf("got DDL blocked for %v, commits for %v, want both, the second shorter", r.DDLBlocked, r.CommitsBlocked)
	}
	locked := 0
	var files []string
	for _, e := range events {
		switch e.Kind {
		case EventLocked:
			locked++
		case EventFile:
			files = append(files, e.File)
		}
	}
	if locked != 4 {
		t.Errorf("got %d locks granted, want 4", locked)
	}
	for _, want := range []string{"ibdata1", "shop/error_log.ibd", "shop/m.MYD", "shop/a.MAI", "/var/lib/mysql//aria_log_control", "xtrabackup_info"} {
		if !slices.Contains(files, want) {
			t.Errorf("file %q was not noticed in %q", want, files)
		}
	}
}

// TestOneLockVersion follows a tool that takes one lock for everything, as before 10.11.8.
func TestOneLockVersion(t *testing.T) {
	r, events, _ := say(`[00] 2026-11-30 19:50:15 Streaming ./ibdata1 to <STDOUT>
[00] 2026-11-30 19:50:15         ...done
[00] 2026-11-30 19:50:16 >> log scanned up to (1626789)
[00] 2026-11-30 19:50:16 Acquiring BACKUP LOCKS...
[00] 2026-11-30 19:50:16 Starting to backup non-InnoDB tables and files
[00] 2026-11-30 19:50:16 Finished backing up non-InnoDB tables and files
[00] 2026-11-30 19:50:16 Executing BACKUP STAGE END
[00] 2026-11-30 19:50:16 All tables unlocked
[00] 2026-11-30 19:50:16 completed OK!
`, 77)
	if r.DDLBlocked <= 0 || r.CommitsBlocked != r.DDLBlocked || !r.Completed {
		t.Errorf("got %+v, want locks", r)
	}
	scanned := slices.IndexFunc(events, func(e Event) bool { return e.Kind == EventScanned })
	if scanned < 0 || events[scanned].LSN != 1626789 {
		t.Errorf("got events %+v, want one of the log scanned", events)
	}
}

func TestLevels(t *testing.T) {
	for _, tt := range []struct {
		line string
		want level
	}{
		{"[00] FATAL ERROR: 2026-11-30 19:50:17 mariabackup: Error: failed to copy datafile.", levelError},
		{"[00] 2026-11-30 19:50:17 Error: copy_file() failed.", levelError},
		{"mariadb-backup: Error writing file 'UNKNOWN' (errno: 28 \"No space left on device\")", levelError},
		{"2026-11-30 20:12:29 0 [ERROR] InnoDB: File ./ib_logfile0 is too small", levelError},
		{"[ERROR] log copying failed", levelError},
		{"xtrabackup: error: cannot open", levelError},
		{"mariadb-backup: Can't create/write to file '/x' (Errcode: 13 \"Permission denied\")", levelError},
		{"ERROR 1045 (28000)", levelError},
		{"2026-11-30 20:12:29 0 [Warning] InnoDB: junk at the end", levelWarning},
		{"[00] 2026-11-30 19:50:17 mariabackup: Warning: We assume the table was dropped", levelWarning},
		{"2026-11-30 20:12:29 0 [Note] InnoDB: Error: this is only a note", levelNote},
		{"[00] 2026-11-30 19:50:17 Streaming ./db/error_log.ibd", levelNote},
		{"[01] 2026-11-30 19:50:17 Streaming ./db/Error: x.ibd to <STDOUT>", levelNote},
		{"[00] 2026-11-30 19:50:15 Copied file ./db/e.MYD for table `db`.`Error: x`, 7 bytes", levelNote},
		{"[00] 2026-11-30 19:50:15 Moved something of `db`.`[ERROR] x`", levelNote},
		{"[00] 2026-11-30 19:50:15 Skip table db.FATAL ERROR at it is in exclude list", levelNote},
		{"[00] 2026-11-30 19:50:15 DDL tracking : create 5 \"./shop/Error: .ibd\"", levelNote},
		{"/usr/bin/mariabackup: Deprecated program name. It will be removed in a future release, use '/usr/bin/mariadb-backup' instead", levelNote},
		{" len 16384; hex 00; asc  Error: [ERROR];", levelNote},
		{"Error in my_thread_global_end(): 1 threads didn't exit", levelNote},
		{"", levelNote},
	} {
		t.Run(tt.line, func(t *testing.T) {
			if _, got := parseMessage(strings.TrimSpace(tt.line)); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		want       []string
	}{
		{"one", "[00] 2026-11-30 19:50:15 text", []string{"[00] 2026-11-30 19:50:15 text"}},
		{"glued", "mariabackup: Stopping log copying thread.[00] 2026-11-30 19:50:15 >> log scanned up to (5)",
			[]string{"mariabackup: Stopping log copying thread.", "[00] 2026-11-30 19:50:15 >> log scanned up to (5)"}},
		{"glued fatal", "0% 31%[00] FATAL ERROR: 2026-11-30 19:50:15 x", []string{"0% 31%", "[00] FATAL ERROR: 2026-11-30 19:50:15 x"}},
		{"glued InnoDB", "100%2026-11-30  9:50:15 0 [ERROR] InnoDB: x", []string{"100%", "2026-11-30  9:50:15 0 [ERROR] InnoDB: x"}},
		{"routine", "[00] 2026-11-30 19:50:15 Streaming ./a.ibd", []string{"[00] 2026-11-30 19:50:15 Streaming ./a.ibd"}},
		{"routine glued", "[00] 2026-11-30 19:50:15 Streaming ./a.ibd[01] 2026-11-30 19:50:15 Error: x",
			[]string{"[00] 2026-11-30 19:50:15 Streaming ./a.ibd", "[01] 2026-11-30 19:50:15 Error: x"}},
		{"blank", "  ", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := split(tt.line); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestLongLine: text without any line end is bounded, found in, and free of secrets.
func TestLongLine(t *testing.T) {
	const secret = "geheim geheim"
	var log bytes.Buffer
	var longest, found int
	l := &lines{log: &log, secrets: []string{secret, "", "a"}, message: func(msg string) {
		longest = max(longest, len(msg))
		if strings.HasSuffix(msg, "completed OK!") {
			found++
		}
	}}
	filler := strings.Repeat("0123456 ", 100)
	want := 0
	for range 4000 { // 3 MB
		for _, s := range []string{filler, secret, " x"} {
			_, _ = l.Write([]byte(s))
		}
		want += len(filler) + len(blot) + len(" x")
	}
	_, _ = l.Write([]byte("[00] 2026-11-30 19:50:15 completed OK!"))
	l.close()
	if longest > maxLine || found != 1 {
		t.Errorf("got a longest message of %d bytes, %d ends, want at most %d, 1", longest, found, maxLine)
	}
	if strings.Contains(log.String(), "geheim") {
		t.Error("the log holds the secret")
	}
	if want += len("[00] 2026-11-30 19:50:15 completed OK!\n"); log.Len() != want {
		t.Errorf("log: got %d bytes, want %d", log.Len(), want)
	}
}

func TestLogFails(t *testing.T) {
	broken := errors.New("log broken")
	var said []string
	l := &lines{log: failingWriter{broken}, message: func(msg string) { said = append(said, msg) }}
	_, _ = l.Write([]byte("one\ntwo\n"))
	if !errors.Is(l.logErr, broken) || len(said) != 2 {
		t.Errorf("got error %v, messages %q, want %v and both messages", l.logErr, said, broken)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestManyErrors(t *testing.T) {
	r, events, _ := say(strings.Repeat("Error: x\nWarning: y\n", 1000), 500)
	if len(r.Errors) != mostLines || len(r.Warnings) != mostLines || len(r.Tail) != tailLines || len(events) != 2000 {
		t.Errorf("got %d errors, %d warnings, %d last lines, %d events, want %d, %d, %d, 2000",
			len(r.Errors), len(r.Warnings), len(r.Tail), len(events), mostLines, mostLines, tailLines)
	}
}

// TestLineOfARunThatOnlyShutsDown takes the end of a real run that failed under renames of Aria and MyISAM tables.
func TestLineOfARunThatOnlyShutsDown(t *testing.T) {
	lost := "Error 2 on file ./play/t6.MYD open during `play`.`t6` table copy: No such file or directory"
	last := []string{"Data files backup process is finished with error", "mariabackup: Stopping log copying thread", "InnoDB: Starting shutdown..."}
	r := Report{Tail: append([]string{"Finished BACKUP STAGE START", lost}, last...)}
	if got := r.lastLine(); got != lost {
		t.Errorf("got %q, want %q", got, lost)
	}
	if k := lookUp(lost); k == nil || !strings.Contains(k.cause, "renamed or dropped") {
		t.Errorf("got %+v, want an explanation", k)
	}
	if got := (&Report{Tail: last}).lastLine(); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

func TestKnownMessages(t *testing.T) {
	for i := range knownMessages {
		k := &knownMessages[i]
		text := strings.Join(k.find, " … ")
		if got := lookUp("[00] 2026-11-30 19:50:15 " + text); got != k {
			t.Errorf("message %q is hidden by an earlier entry", text)
		}
		if k.cause == "" || k.hint == "" {
			t.Errorf("message %q has no cause or no hint", text)
		}
	}
	redo := lookUp("Was only able to copy log from 1 to 2, not 3")
	for _, tt := range []struct {
		v    version.Number
		want bool
	}{
		{version.Parse("10.11.9"), false}, {version.Parse("10.11.10"), true}, {version.Parse("10.11.18"), true}, {version.Parse("10.11.19"), false},
		{version.Parse("11.8.5"), true}, {version.Parse("12.3.3"), false}, {version.Number{}, false},
	} {
		if _, hint := redo.explain(tt.v); strings.Contains(hint, "MDEV-") != tt.want {
			t.Errorf("version %v: got hint %q, want a defect named: %v", tt.v, hint, tt.want)
		}
	}
}

// FuzzMessages: nothing the tool says can break the reader, lose text, or hold more than its bounds.
func FuzzMessages(f *testing.F) {
	for _, name := range []string{"backup-ok", "corrupt", "prepare-ok"} {
		text, err := os.ReadFile(filepath.Join("testdata", "stderr", name+".txt"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text[max(0, len(text)-200):]), 17)
	}
	f.Add("Started BACKUP STAGE \xff\r\r\n[00] FATAL ERROR: ", 1)
	f.Fuzz(func(t *testing.T, text string, step int) {
		step = max(1, min(step, 1<<16))
		r, _, log := say(text, step)
		if strings.TrimRight(log, "\n") != strings.TrimRight(text, "\n") {
			t.Errorf("log: got %q, want %q", log, text)
		}
		if len(r.Errors) > mostLines || len(r.Tail) > tailLines {
			t.Errorf("got %d errors, %d last lines", len(r.Errors), len(r.Tail))
		}
	})
}
