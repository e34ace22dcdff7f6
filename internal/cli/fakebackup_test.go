package cli

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mbwrap/mbwrap/xbstream"
)

// fake is how the program fakebackup, which scripts use in place of mariadb-backup, is to behave. Each field is set by a
// variable of the environment (FAKE_HANG_AT=100) or by an argument (--fake-hang-at=100), which beats it; the tool's own
// options are accepted and ignored.
type fake struct {
	stream     string         // FAKE_STREAM: file that goes to stdout in --backup
	endless    bool           // FAKE_ENDLESS=1: then go on with files of noise until nobody reads them
	stderr     string         // FAKE_STDERR: file that goes to stderr first, in place of the usual text
	tail       string         // FAKE_TAIL: file that goes to stderr last, in place of "completed OK!"
	exit       int            // FAKE_EXIT: exit code
	hangAt     int64          // FAKE_HANG_AT: stop writing after so many bytes, and wait for a signal; -1: never
	killAt     int64          // FAKE_KILL_AT: die by SIGKILL after so many bytes; -1: never
	hangEnd    bool           // FAKE_HANG_END=1: wait for a signal after the last byte and the last line
	ignore     []string       // FAKE_IGNORE=INT,TERM: ignore these signals
	argsFile   string         // FAKE_ARGS: write the arguments there, one a line
	envFile    string         // FAKE_ENV: write the environment there, one variable a line
	pidFile    string         // FAKE_PID: write the process id there, once signals are set up
	version    string         // FAKE_VERSION: answer to --version
	readyFile  string         // FAKE_READY: create this file when hanging
	signalFile string         // FAKE_SIGNAL: write the name of the signal that ended the hanging there
	got        chan os.Signal // signals that are not ignored
}

// Usual texts of mariadb-backup 10.11.
const (
	fakeVersion = "mariadb-backup based on MariaDB server 10.11.11-MariaDB debian-linux-gnu (x86_64)"
	fakeHead    = `[00] 2026-11-30 18:01:02 Connecting to MariaDB server host: localhost, user: root, password: not set, port: not set, socket: /run/mysqld/mysqld.sock
[00] 2026-11-30 18:01:02 Using server version 10.11.11-MariaDB
mariabackup: Stopping log copying thread.[00] 2026-11-30 18:01:02 >> log scanned up to (47763)
[00] 2026-11-30 18:01:02 Starting BACKUP STAGE START
[01] 2026-11-30 18:01:02 Streaming ibdata1
[01] 2026-11-30 18:01:02         ...done
[00] 2026-11-30 18:01:03 Starting BACKUP STAGE BLOCK_COMMIT
[00] 2026-11-30 18:01:03 All tables unlocked
[00] 2026-11-30 18:01:03 Redo log (from LSN 47751 to 47763) was copied.
`
	fakeTail = "[00] 2026-11-30 18:01:03 completed OK!\n"
)

// fakeBackup is the program. It returns the exit code.
func fakeBackup(args []string) int {
	f, err := newFake(args)
	if err == nil {
		err = f.record(args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakebackup:", err)
		return 99
	}
	f.catch()
	switch {
	case slices.Contains(args, "--version"):
		fmt.Println(f.version)
		return 0
	case slices.Contains(args, "--backup"):
		return f.backup()
	}
	fmt.Fprint(os.Stderr, fakeTail) // --prepare and the like
	return f.exit
}

// newFake reads the settings.
func newFake(args []string) (*fake, error) {
	get := func(name string) string {
		flag := "--fake-" + strings.ToLower(strings.ReplaceAll(name, "_", "-")) + "="
		for _, a := range args {
			if value, ok := strings.CutPrefix(a, flag); ok {
				return value
			}
		}
		return os.Getenv("FAKE_" + name)
	}
	var err error
	num := func(name string, unset int64) int64 {
		text := get(name)
		if text == "" {
			return unset
		}
		n, e := strconv.ParseInt(text, 10, 64)
		err = errors.Join(err, e)
		return n
	}
	f := &fake{stream: get("STREAM"), stderr: get("STDERR"), tail: get("TAIL"), exit: int(num("EXIT", 0)),
		endless: get("ENDLESS") != "",
		hangAt:  num("HANG_AT", -1), killAt: num("KILL_AT", -1), hangEnd: get("HANG_END") != "",
		ignore: strings.Split(get("IGNORE"), ","), argsFile: get("ARGS"), envFile: get("ENV"), pidFile: get("PID"),
		version: get("VERSION"), readyFile: get("READY"), signalFile: get("SIGNAL"), got: make(chan os.Signal, 4)}
	if f.version == "" {
		f.version = fakeVersion
	}
	return f, err
}

// record writes down how the program was called.
func (f *fake) record(args []string) error {
	var err error
	if f.argsFile != "" {
		err = os.WriteFile(f.argsFile, []byte(strings.Join(args, "\n")+"\n"), 0o600)
	}
	if f.envFile != "" {
		err = errors.Join(err, os.WriteFile(f.envFile, []byte(strings.Join(os.Environ(), "\n")+"\n"), 0o600))
	}
	return err
}

// catch sets signals up. Like the real tool the fake does not die of SIGTERM when told to ignore it.
func (f *fake) catch() {
	for name, s := range map[string]os.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP} {
		if slices.Contains(f.ignore, name) {
			signal.Ignore(s)
		} else {
			signal.Notify(f.got, s)
		}
	}
	if f.pidFile != "" {
		_ = os.WriteFile(f.pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	}
}

// backup plays --backup.
func (f *fake) backup() int {
	f.print(f.stderr, fakeHead)
	if f.stream != "" && !f.send() {
		return 1
	}
	if f.exit == 0 {
		f.print(f.tail, fakeTail)
	} else {
		f.print(f.tail, "[00] FATAL ERROR: 2026-11-30 18:01:03 something went wrong\n")
	}
	if f.hangEnd {
		f.hang()
		return 1
	}
	return f.exit
}

// send writes the stream, up to the place where it is to hang or die; false means a signal ended it.
func (f *fake) send() bool {
	in, err := os.Open(f.stream)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakebackup:", err)
		return false
	}
	defer in.Close()
	limit := int64(1) << 62
	if f.hangAt >= 0 {
		limit = f.hangAt
	}
	if f.killAt >= 0 {
		limit = f.killAt
	}
	if _, err := io.Copy(os.Stdout, io.LimitReader(in, limit)); err != nil {
		fmt.Fprintf(os.Stderr, "mariadb-backup: Error writing file 'UNKNOWN' (errno: 32 %q)\n", "Broken pipe")
		return false
	}
	if f.endless {
		f.sendNoise()
		return false
	}
	if f.killAt >= 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if f.hangAt >= 0 {
		f.hang()
		return false
	}
	return true
}

// sendNoise writes files, each good in itself, until that fails or a signal comes, of which the real tool dies.
func (f *fake) sendNoise() {
	go func() {
		<-f.got
		os.Exit(1)
	}()
	w := xbstream.NewWriter(os.Stdout)
	random := rand.NewChaCha8([32]byte{})
	for i := 0; ; i++ {
		if _, err := w.WriteFile(fmt.Sprintf("noise/t%d.ibd", i), io.LimitReader(random, 1<<20)); err != nil {
			return
		}
	}
}

// hang waits for a signal. It gives up when its parent is gone, and after two minutes, so that a test that kills or goes
// wrong leaves nothing behind.
func (f *fake) hang() {
	parent := os.Getppid()
	if f.readyFile != "" {
		_ = os.WriteFile(f.readyFile, nil, 0o600)
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	end := time.After(2 * time.Minute)
	for os.Getppid() == parent {
		select {
		case s := <-f.got:
			if f.signalFile != "" {
				_ = os.WriteFile(f.signalFile, []byte(s.String()+"\n"), 0o600)
			}
			return
		case <-end:
			return
		case <-look.C:
		}
	}
}

// print writes a file to stderr, or text if there is none.
func (f *fake) print(file, text string) {
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			data = []byte("fakebackup: " + err.Error() + "\n")
		}
		text = string(data)
	}
	fmt.Fprint(os.Stderr, text)
}
