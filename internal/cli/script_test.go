package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/internal/testenv"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"mbwrap":     scriptMbwrap,
		"fakebackup": func() { os.Exit(fakeBackup(os.Args[1:])) },
	})
}

// scriptMbwrap is the whole program but for main, with the usual configuration file moved out of the machine's way.
func scriptMbwrap() {
	env := System()
	env.ConfigFile = env.Getenv("SCRIPT_CONFIG")
	ctx, stop := WithSignals(context.Background())
	code := Main(ctx, os.Args, env)
	stop()
	os.Exit(code)
}

// patience bounds every wait in a script.
const patience = 30 * time.Second

// TestScripts runs testdata/script. Besides the standard commands of testscript a script has
//
//	exits CODE PROGRAM ARG…        run, and want exactly this exit code; stdout and stderr can be looked at
//	launch NAME PROGRAM ARG…       start in the background, with output in NAME.out and NAME.err
//	signal NAME INT|TERM|HUP|KILL  send a signal to it
//	reap NAME CODE                 wait for its end, and want this exit code, or signal:9
//	waitfile FILE [TEXT]           wait until FILE, a pattern, exists, and holds TEXT
//	json FILE PATH [VALUE]         want VALUE at PATH (a.b.0) of FILE, or anything there; FILE may be stdout
//	flip FILE OFFSET               turn round all bits of one byte; a negative offset counts from the end
//	cut FILE SIZE                  truncate; a negative size is what goes from the end
//	size FILE BYTES                want a file of that size
//	mode FILE OCTAL                want these permissions
//	mkstream FILE [NAME=NUMBER…]   make a backup's stream; see scriptMkstream
//	rawstream FILE ITEM…           make any stream, also a bad one; see scriptRawStream
//	nofiles DIR…                   want no file below the directories
//	gone PIDFILE                   wait until the process whose number is in the file has ended
//	timer [TIME]                   start the clock; with TIME want at most that much since
//	hookserver NAME STATUS         start an HTTP server; its address becomes $NAME; see scriptHookServer
//
// the variables $fakebackup and $mbwrap, which are the absolute paths of these programs, and the conditions [tool:NAME]
// (an outside program is there, and must be if MBWRAP_REQUIRE says so), [root] and [mount] (unshare can mount a small file
// system that nobody else sees).
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		WorkdirRoot:        scriptRoot(t),
		Setup:              setUpScript,
		Condition:          scriptCondition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    scriptExits,
			"launch":   scriptLaunch,
			"signal":   scriptSignal,
			"reap":     scriptReap,
			"waitfile": scriptWaitFile,
			"json":     scriptJSON,
			"flip":     scriptFlip,
			"cut":      scriptCut,
			"size":     scriptSize,
			"mode":     scriptMode,
			"mkstream": scriptMkstream,

			"rawstream":  scriptRawStream,
			"nofiles":    scriptNoFiles,
			"gone":       scriptGone,
			"timer":      scriptTimer,
			"hookserver": scriptHookServer,
		},
	})
}

// scriptRoot is where the scripts' directories are made: in memory if there is room, because every backup is flushed to
// the disk several times, for which a busy one takes seconds. "" is the usual place.
func scriptRoot(t *testing.T) string {
	const shared, room = "/dev/shm", 512 << 20
	var free unix.Statfs_t
	if err := unix.Statfs(shared, &free); err != nil || free.Type != unix.TMPFS_MAGIC || free.Bavail*uint64(free.Bsize) < room {
		return ""
	}
	dir, err := os.MkdirTemp(shared, "mbwrap-script-")
	if err != nil {
		return ""
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) // what is left there is only memory, until the machine restarts
	return dir
}

func setUpScript(env *testscript.Env) error {
	for _, name := range []string{"fakebackup", "mbwrap"} {
		path, err := exec.LookPath(name)
		if err != nil {
			return err
		}
		env.Setenv(name, path)
	}
	env.Setenv("PATH", env.Getenv("PATH")+":/usr/sbin:/usr/local/sbin")
	env.Setenv("GORACE", "atexit_sleep_ms=0") // else every program lingers for a second in a test with -race
	env.Values[launchedKey{}] = map[string]*launched{}
	env.Values[clockKey{}] = new(time.Time)
	return nil
}

func scriptCondition(cond string) (bool, error) {
	switch cond {
	case "root":
		return os.Getuid() == 0, nil
	case "mount":
		return exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", "/tmp").Run() == nil, nil
	}
	name, ok := strings.CutPrefix(cond, "tool:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin") {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return true, nil
		}
	}
	required := strings.Split(os.Getenv(testenv.RequireVariable), ",")
	if slices.Contains(required, name) || slices.Contains(required, "all") {
		return false, fmt.Errorf("%s is not installed, and %s asks for it", name, testenv.RequireVariable)
	}
	return false, nil
}

// scriptArgs checks the number of arguments of a script command.
func scriptArgs(ts *testscript.TestScript, neg bool, args []string, least int, usage string) {
	if neg || len(args) < least {
		ts.Fatalf("usage: %s", usage)
	}
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "exits CODE PROGRAM ARG…")
	got := exitText(ts.Exec(args[1], args[2:]...))
	if got != args[0] {
		ts.Fatalf("exit code: got %s, want %s\nstderr:\n%s", got, args[0], ts.ReadFile("stderr"))
	}
}

// exitText is the end of a program as scripts write it.
func exitText(err error) string {
	if err == nil {
		return "0"
	}
	e, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err.Error()
	}
	if status, ok := e.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Sprintf("signal:%d", status.Signal())
	}
	return strconv.Itoa(e.ExitCode())
}

type launchedKey struct{}

// launched is a program in the background; end is closed when it has ended, with err.
type launched struct {
	cmd *exec.Cmd
	end chan struct{}
	err error
}

func scriptLaunched(ts *testscript.TestScript) map[string]*launched {
	return ts.Value(launchedKey{}).(map[string]*launched)
}

func scriptLaunch(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "launch NAME PROGRAM ARG…")
	path := args[1]
	if !strings.Contains(path, "/") {
		var err error
		path, err = exec.LookPath(path)
		ts.Check(err)
	}
	l := &launched{cmd: exec.Command(path, args[2:]...), end: make(chan struct{})}
	l.cmd.Dir = ts.MkAbs(".")
	l.cmd.Env = scriptEnviron(ts)
	out, err := os.Create(ts.MkAbs(args[0] + ".out"))
	ts.Check(err)
	errs, err := os.Create(ts.MkAbs(args[0] + ".err"))
	ts.Check(err)
	l.cmd.Stdout, l.cmd.Stderr = out, errs
	ts.Check(l.cmd.Start())
	scriptLaunched(ts)[args[0]] = l
	go func() {
		l.err = errors.Join(l.cmd.Wait(), out.Close(), errs.Close())
		close(l.end)
	}()
	ts.Defer(func() {
		_ = l.cmd.Process.Kill() // ended already, if the script reaped it
		<-l.end
	})
}

// scriptEnviron returns the script's environment: the module keeps it to itself, but shows it to a program.
func scriptEnviron(ts *testscript.TestScript) []string {
	ts.Check(ts.Exec("env", "-0"))
	return strings.Split(strings.TrimRight(ts.ReadFile("stdout"), "\x00"), "\x00")
}

func scriptSignal(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "signal NAME INT|TERM|HUP|KILL")
	numbers := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP,
		"KILL": syscall.SIGKILL}
	l, number := scriptLaunched(ts)[args[0]], numbers[args[1]]
	if l == nil || number == 0 {
		ts.Fatalf("no program %q or no signal %q", args[0], args[1])
	}
	ts.Check(l.cmd.Process.Signal(number))
}

func scriptReap(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "reap NAME CODE")
	l := scriptLaunched(ts)[args[0]]
	if l == nil {
		ts.Fatalf("no program %q", args[0])
	}
	select {
	case <-l.end:
	case <-time.After(patience):
		ts.Fatalf("%s: still running after %v", args[0], patience)
	}
	if got := exitText(l.err); got != args[1] {
		ts.Fatalf("%s: exit code: got %s, want %s\nstderr:\n%s", args[0], got, args[1], ts.ReadFile(args[0]+".err"))
	}
}

func scriptWaitFile(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "waitfile FILE [TEXT]")
	want := []byte(strings.Join(args[1:], " "))
	for start := time.Now(); time.Since(start) < patience; time.Sleep(5 * time.Millisecond) {
		names, err := filepath.Glob(ts.MkAbs(args[0]))
		ts.Check(err)
		for _, name := range names {
			if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, want) {
				return
			}
		}
	}
	ts.Fatalf("%s: not there with %q after %v", args[0], want, patience)
}

func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, false, args, 2, "[!] json FILE PATH [VALUE]")
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	for key := range strings.SplitSeq(args[1], ".") {
		switch node := v.(type) {
		case map[string]any:
			v = node[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(node) {
				v = nil
				break
			}
			v = node[i]
		default:
			v = nil
		}
	}
	got, _ := json.Marshal(v)
	if text, ok := v.(string); ok {
		got = []byte(text)
	}
	fits := v != nil
	if len(args) > 2 {
		fits = string(got) == args[2]
	}
	if fits == neg {
		ts.Fatalf("%s of %s: got %s, want (%v) %q", args[1], args[0], got, !neg, args[2:])
	}
}

// scriptNumber parses an argument; negative ones count from the end of the file.
func scriptNumber(ts *testscript.TestScript, file, text string) int64 {
	n, err := strconv.ParseInt(text, 0, 64)
	ts.Check(err)
	if n < 0 {
		info, err := os.Stat(ts.MkAbs(file))
		ts.Check(err)
		n += info.Size()
	}
	return n
}

func scriptFlip(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "flip FILE OFFSET")
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_RDWR, 0)
	ts.Check(err)
	defer f.Close()
	at := scriptNumber(ts, args[0], args[1])
	one := make([]byte, 1)
	_, err = f.ReadAt(one, at)
	ts.Check(err)
	one[0] ^= 0xff
	_, err = f.WriteAt(one, at)
	ts.Check(err)
}

func scriptCut(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "cut FILE SIZE")
	ts.Check(os.Truncate(ts.MkAbs(args[0]), scriptNumber(ts, args[0], args[1])))
}

func scriptSize(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "size FILE BYTES")
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := strconv.FormatInt(info.Size(), 10); got != args[1] {
		ts.Fatalf("%s: got %s bytes, want %s", args[0], got, args[1])
	}
}

func scriptMode(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "mode FILE OCTAL")
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[1] {
		ts.Fatalf("%s: got mode %s, want %s", args[0], got, args[1])
	}
}
