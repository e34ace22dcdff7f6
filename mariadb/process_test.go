package mariadb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/internal/scratchtest"
)

const okLine = "echo '[00] 2026-11-30 19:50:15 completed OK!' >&2\n"

// start runs a fake tool and sees to its end.
func start(t *testing.T, script string, change func(*mariadb.BackupOptions)) *mariadb.Process {
	t.Helper()
	o := mariadb.BackupOptions{Tool: scratchtest.FakeTool(t, script), Grace: 200 * time.Millisecond}
	o.DefaultsFile = "/dev/null"
	if change != nil {
		change(&o)
	}
	p, err := mariadb.StartBackup(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestReadEnds(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		accept       bool
		want         string // in the error; "" is io.EOF
		hint         string
	}{
		{name: "good", script: "printf DATA\n" + okLine},
		{name: "good, last line without end", script: "printf DATA; printf 'completed OK!' >&2\n"},
		{name: "good, glued", script: "printf DATA; echo 'Stopping log copying thread.[00] 2026-11-30 19:50:15 completed OK!' >&2\n"},
		{name: "good, carriage returns", script: "printf DATA; printf 'a\\rb\\r\\ncompleted OK!\\r\\n' >&2\n"},
		{name: "exit 1 after a full stream", script: "printf DATA\nexit 1\n", want: "exit status 1"},
		{name: "exit 1 in spite of completed OK", script: "printf DATA\n" + okLine + "exit 1\n", want: "exit status 1"},
		{name: "exit 0 without completed OK", script: "printf DATA\n", want: `without "completed OK!"`},
		{name: "nothing at all", script: "exit 1\n", want: "exit status 1"},
		{
			name:   "exit 0, completed OK, but an error",
			script: "printf DATA; echo '[ERROR] InnoDB: log copying failed' >&2\n" + okLine,
			want:   `claims success but reported errors: it said "InnoDB: log copying failed"`,
		},
		{
			name:   "exit 0, completed OK, but an error, accepted",
			script: "printf DATA; echo '[ERROR] InnoDB: log copying failed' >&2\n" + okLine, accept: true,
		},
		{
			name:   "late write error",
			script: "printf DATA; echo 'mariadb-backup: Error writing file '\"'UNKNOWN'\"' (errno: 32 \"Broken pipe\")' >&2\n" + okLine,
			want:   "whoever took the backup's bytes went away", hint: "look for the first error of the destination",
		},
		{name: "killed from outside", script: "printf DATA\nkill -9 $$\n", want: "ended by a signal: killed"},
		{name: "crash", script: "printf DATA\nkill -SEGV $$\n", want: "ended by a signal: segmentation fault"},
		{
			name:   "known cause",
			script: "printf DATA; echo '[00] 2026-11-30 20:00:43 Was only able to copy log from 44404 to 10539351, not 643691293' >&2\nexit 1\n",
			want:   "overwrote what was still needed", hint: "enlarge innodb_log_file_size",
		},
		{name: "last words", script: "printf DATA; echo 'something odd' >&2\nexit 9\n", want: `exit status 9: it said "something odd"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, tt.script, func(o *mariadb.BackupOptions) { o.AcceptErrors = tt.accept })
			got, err := io.ReadAll(p)
			if want := "DATA"; string(got) != want && tt.name != "nothing at all" {
				t.Errorf("stream: got %q, want %q", got, want)
			}
			checkEnd(t, p, err, tt.want)
			if hint := hintOf(err); !strings.Contains(hint, tt.hint) {
				t.Errorf("hint: got %q, want %q in it", hint, tt.hint)
			}
			if _, again := p.Read(make([]byte, 1)); err != nil && !errors.Is(again, err) {
				t.Errorf("Read again: got %v, want %v", again, err)
			}
		})
	}
}

func hintOf(err error) string {
	var failure *mariadb.ToolError
	var suspect *mariadb.SuspectError
	var usage *mariadb.UsageError
	switch {
	case errors.As(err, &failure):
		return failure.Hint
	case errors.As(err, &suspect):
		return suspect.Hint
	case errors.As(err, &usage):
		return usage.Hint
	}
	return ""
}

// checkEnd compares the error of a run; "" wants none.
func checkEnd(t *testing.T, p *mariadb.Process, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("got %v, want a clean end", err)
		}
		if r := p.Report(); r.ExitCode != 0 || !r.Completed || r.Stopped || r.Ended.IsZero() {
			t.Errorf("report: got %+v, want a clean end", r)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error with %q", err, want)
	}
}

// waitStarted reads the first byte, which a fake writes when it is ready.
func waitStarted(t *testing.T, p *mariadb.Process) {
	t.Helper()
	if _, err := io.ReadFull(p, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, limit time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s: not done after %v", what, limit)
	}
}

func TestStop(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"idle", "printf R\nexec sleep 1000\n"},
		{"ignores all but KILL", "trap '' INT TERM HUP\nprintf R\nwhile :; do sleep 0.05; done\n"},
		{"blocked on a full pipe", "printf R\nexec cat /dev/zero\n"},
		{"has closed its stdout", "printf R\nexec >&-\nexec sleep 1000\n"},
		{"with children", "sleep 1000 &\nsleep 1000 &\nprintf R\nwait\n"},
		{"with a child that ignores SIGINT", "sh -c 'trap \"\" INT; exec sleep 1000' &\nprintf R\nexec sleep 1000\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, tt.script, nil)
			waitStarted(t, p)
			within(t, 4*time.Second, "Stop", func() {
				if err := p.Stop(); err != nil {
					t.Error(err)
				}
			})
			_, err := p.Read(make([]byte, 1))
			var failure *mariadb.ToolError
			if !errors.As(err, &failure) || !failure.Stopped || failure.Signal == "" {
				t.Errorf("Read after Stop: got %#v, want a ToolError that says stopped", err)
			}
			if want := "mariadb-backup was stopped"; err.Error() != want {
				t.Errorf("got %q, want %q", err, want)
			}
			checkGroupGone(t, p.PID())
			if err := p.Stop(); err != nil {
				t.Errorf("Stop again: %v", err)
			}
			if r := p.Report(); !r.Stopped || r.Ended.IsZero() {
				t.Errorf("report: got %+v, want stopped and ended", r)
			}
		})
	}
}

// TestStopAfterExit: the tool has ended well, but what it left in the pipe was not read. That is no clean end.
func TestStopAfterExit(t *testing.T) {
	p := start(t, "printf RDATA\n"+okLine, nil)
	waitStarted(t, p)
	for !gone(p.PID()) {
		time.Sleep(time.Millisecond)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	_, err := p.Read(make([]byte, 10))
	var failure *mariadb.ToolError
	if !errors.As(err, &failure) || !failure.Stopped {
		t.Errorf("got %v, want a ToolError that says stopped", err)
	}
}

// TestCancelAfterStdout: the stream has ended, but the tool has not.
func TestCancelAfterStdout(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := mariadb.StartBackup(ctx, mariadb.BackupOptions{Tool: scratchtest.FakeTool(t, "exec >&-\nexec sleep 1000\n")})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	within(t, 5*time.Second, "read", func() {
		if _, err := io.ReadAll(p); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	})
}

func TestStopDuringRead(t *testing.T) {
	p := start(t, "printf R\nexec sleep 1000\n", nil)
	waitStarted(t, p)
	reading := make(chan error)
	go func() { _, err := p.Read(make([]byte, 1)); reading <- err }()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	within(t, 4*time.Second, "stop during read", func() {
		var failure *mariadb.ToolError
		if err := <-reading; !errors.As(err, &failure) || !failure.Stopped {
			t.Errorf("got %v, want a ToolError that says stopped", err)
		}
		group.Wait()
	})
}

func TestCancel(t *testing.T) {
	why := errors.New("sink failed")
	ctx, cancel := context.WithCancelCause(t.Context())
	p, err := mariadb.StartBackup(ctx, mariadb.BackupOptions{Tool: scratchtest.FakeTool(t, "printf R\nexec sleep 1000\n")})
	if err != nil {
		t.Fatal(err)
	}
	waitStarted(t, p)
	cancel(why)
	within(t, 4*time.Second, "read after cancel", func() {
		_, err := io.ReadAll(p)
		if !errors.Is(err, why) {
			t.Errorf("got %v, want %v", err, why)
		}
		if want := "mariadb-backup was stopped: sink failed"; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	})
	if _, err := mariadb.StartBackup(ctx, mariadb.BackupOptions{Tool: scratchtest.FakeTool(t, "")}); !errors.Is(err, why) {
		t.Errorf("start after cancel: got %v, want %v", err, why)
	}
}

func TestCancelAfterEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := mariadb.StartBackup(ctx, mariadb.BackupOptions{Tool: scratchtest.FakeTool(t, okLine)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(p); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := p.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("got %v, want %v", err, io.EOF)
	}
}

// TestGrandchildHoldsOutputs: the tool is gone, but something it left behind keeps its outputs open.
func TestGrandchildHoldsOutputs(t *testing.T) {
	t.Parallel()
	p := start(t, "printf DATA\nsleep 1000 &\n"+okLine, nil)
	within(t, 15*time.Second, "read", func() {
		got, err := io.ReadAll(p)
		if string(got) != "DATA" {
			t.Errorf("got %q, want DATA", got)
		}
		checkEnd(t, p, err, "still held open by another process")
	})
	checkGroupGone(t, p.PID())
}

// TestSlowReader: the tool ends long before its stream is read.
func TestSlowReader(t *testing.T) {
	p := start(t, "head -c 50000 /dev/zero\n"+okLine, nil)
	for !p.Report().Completed {
		time.Sleep(time.Millisecond)
	}
	got, err := io.ReadAll(p)
	if len(got) != 50000 {
		t.Errorf("got %d bytes, want 50000", len(got))
	}
	checkEnd(t, p, err, "")
}

func TestArgumentsAndEnvironment(t *testing.T) {
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("MBWRAP_PASSPHRASE", "not for children")
	dir := t.TempDir()
	file := filepath.Join(dir, "my cnf")
	if err := os.WriteFile(file, []byte("[client]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := `for a in "$@"; do echo "$a"; done; echo "TZ=$TZ"; env | grep ^MBWRAP_; readlink /proc/self/fd/0; ulimit -Sn; ulimit -Hn; nice` + "\n" + okLine
	script = strings.ReplaceAll(script, "; nice", "; cut -d' ' -f19 /proc/$$/stat")
	p := start(t, script, func(o *mariadb.BackupOptions) {
		o.DefaultsFile, o.User, o.Host, o.Port, o.Socket = file, "bk", "127.0.0.1", 3307, "/run/s"
		o.Parallel, o.IncrementalLSN, o.Nice = 3, 4711, 5
		o.Args = []string{"--galera-info", "--tables", "^db[.]t; rm -rf $HOME"}
	})
	got, err := io.ReadAll(p)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--defaults-file=" + file, "--backup", "--stream=mbstream", "--parallel=3", "--user=bk",
		"--host=127.0.0.1", "--socket=/run/s", "--port=3307", "--incremental-lsn=4711", "--log-copy-interval=100", "--galera-info", "--tables",
		"^db[.]t; rm -rf $HOME", "TZ=Asia/Tokyo", "/dev/null"}
	lines := strings.Split(strings.TrimSpace(string(got)), "\n")
	if len(lines) != len(want)+3 {
		t.Fatalf("got %d lines %q, want %d", len(lines), lines, len(want)+3)
	}
	for i := range want {
		if lines[i] != want[i] {
			t.Errorf("line %d: got %q, want %q", i, lines[i], want[i])
		}
	}
	rest := lines[len(want):]
	if rest[0] != rest[1] {
		t.Errorf("open files: got soft limit %s, hard limit %s, want the same", rest[0], rest[1])
	}
	if rest[2] != "5" {
		t.Errorf("nice: got %s, want 5", rest[2])
	}
}

func TestPassword(t *testing.T) {
	const password = `S3cret pw"#\x`
	dir := t.TempDir()
	file := filepath.Join(dir, "my.cnf")
	if err := os.WriteFile(file, []byte("[client]\nuser=bk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The fake shows its option file on stdout, and blurts the password out on stderr, split over two writes.
	script := `for a in "$@"; do echo "$a"; done; stat -Lc %a /dev/fd/3; cat /dev/fd/3; tr '\0' '\n' </proc/$$/cmdline
printf 'Error: S3cret p' >&2; sleep 0.05; printf '%s\n' 'w"#\x is wrong' >&2; exit 1` + "\n"
	var log bytes.Buffer
	var said []string
	p := start(t, script, func(o *mariadb.BackupOptions) {
		o.DefaultsFile, o.Password, o.Log = file, password, &log
		o.OnEvent = func(e mariadb.Event) { said = append(said, e.Text) }
	})
	got, err := io.ReadAll(p)
	lines := strings.Split(string(got), "\n")
	if want := "--defaults-file=/dev/fd/3"; lines[0] != want {
		t.Errorf("first argument: got %q, want %q", lines[0], want)
	}
	for _, want := range []string{"\n600\n", "!include " + file + "\n", `password="S3cret pw\"#\\x"` + "\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
	cmdline := string(got[bytes.LastIndex(got, []byte("mariadb-backup")):])
	for what, text := range map[string]string{
		"command line": cmdline, "log": log.String(), "error": fmt.Sprint(err), "events": strings.Join(said, "|"),
		"report": fmt.Sprintf("%+v", p.Report()),
	} {
		if strings.Contains(text, "S3cret") {
			t.Errorf("%s holds the password: %q", what, text)
		}
	}
	if want := "Error: *** is wrong\n"; log.String() != want {
		t.Errorf("log: got %q, want %q", log.String(), want)
	}
}

func TestStartFailures(t *testing.T) {
	script := scratchtest.FakeTool(t, "exit 0\n")
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		o    mariadb.BackupOptions
		want string
	}{
		{"no tool", mariadb.BackupOptions{Tool: "/nonexistent/tool"}, "no such file"},
		{"not a program", mariadb.BackupOptions{Tool: broken}, "exec format error"},
		{"no option file", mariadb.BackupOptions{Tool: script, ConnectOptions: mariadb.ConnectOptions{DefaultsFile: "/nonexistent/f"}}, "no such file"},
		{"refused option", mariadb.BackupOptions{Tool: script, Args: []string{"--compress"}}, "--compress: "},
		{"impossible priority", mariadb.BackupOptions{Tool: script, Nice: -5}, "set nice value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.o.Nice < 0 && os.Geteuid() == 0 {
				t.Skip("root may")
			}
			_, err := mariadb.StartBackup(t.Context(), tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestKillParent: when the thread that holds the tool ends, which it does when the whole process is killed, the tool
// is killed too. The test binary runs itself as the process to be killed.
func TestKillParent(t *testing.T) {
	if os.Getenv("MARIADB_TEST_PARENT") != "" {
		p := start(t, "trap '' INT TERM HUP\necho $$\nwhile :; do sleep 0.05; done\n", nil)
		pid := make([]byte, 16)
		n, err := p.Read(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(os.Getenv("MARIADB_TEST_PARENT"), pid[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(os.Getpid(), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "pid")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	attr := &os.ProcAttr{Env: append(os.Environ(), "MARIADB_TEST_PARENT="+file, "TMPDIR="+t.TempDir()), Files: []*os.File{nil, nil, nil}}
	parent, err := os.StartProcess(exe, []string{exe, "-test.run=^TestKillParent$"}, attr)
	if err != nil {
		t.Fatal(err)
	}
	state, err := parent.Wait()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("parent ended with %v: %v", state, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	within(t, 5*time.Second, "the tool's death", func() {
		for !gone(pid) {
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// checkGroupGone waits until no process of a group is alive. Killed grandchildren take a moment.
func checkGroupGone(t *testing.T, group int) {
	t.Helper()
	within(t, 5*time.Second, "death of the process group", func() {
		for _, stat := range alive(t, group) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
			for err == nil && !gone(pid) {
				time.Sleep(time.Millisecond)
			}
		}
	})
}

// alive lists the stat files of the processes of a group.
func alive(t *testing.T, group int) []string {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Error(err)
	}
	return slices.DeleteFunc(all, func(stat string) bool {
		text, err := os.ReadFile(stat)
		_, rest, ok := bytes.Cut(text, []byte(") "))
		fields := strings.Fields(string(rest))
		return err != nil || !ok || len(fields) < 3 || fields[2] != strconv.Itoa(group)
	})
}

// gone tells whether a process has ended; a zombie that nobody reaps counts.
func gone(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := bytes.Cut(text, []byte(") "))
	return len(rest) > 0 && (rest[0] == 'Z' || rest[0] == 'X')
}
