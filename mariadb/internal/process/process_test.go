package process

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestChild: the two steps of an end, and signals that come too late.
func TestChild(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	t.Setenv("MBWRAP_PASSWORD", "S3cret")
	cmd := exec.Command("/bin/sh", "-c", "env; exit 3")
	cmd.Stdout = out
	c, err := Start(cmd, 5)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Exited
	if err := unix.Kill(c.PID(), 0); err != nil {
		t.Errorf("before Release: got %v, want the process's entry", err)
	}
	c.Release()
	c.Release()
	<-c.Reaped
	c.Signal(unix.SIGKILL) // nobody is hit
	if got := cmd.ProcessState.ExitCode(); got != 3 {
		t.Errorf("got exit code %d, want 3", got)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil || !strings.Contains(string(text), "PATH=") || strings.Contains(string(text), "S3cret") {
		t.Errorf("got environment %q, error %v, want one without our secrets", text, err)
	}
}

func TestChildStop(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		want         unix.Signal
	}{
		{"obeys", "echo r; exec sleep 1000", unix.SIGTERM},
		{"does not", "trap '' TERM; echo r; while :; do sleep 0.01; done", unix.SIGKILL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			cmd := exec.Command("/bin/sh", "-c", tt.script)
			cmd.Stdout = w
			c, err := Start(cmd, 0)
			if err := errors.Join(err, w.Close()); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Read(make([]byte, 2)); err != nil { // it has begun
				t.Fatal(err)
			}
			if err := c.Stop(unix.SIGTERM, 100*time.Millisecond); err != nil {
				t.Error(err)
			}
			c.Release()
			<-c.Reaped
			if got := cmd.ProcessState.String(); got != "signal: "+tt.want.String() {
				t.Errorf("got %s, want signal: %s", got, tt.want)
			}
		})
	}
}

func TestStartFails(t *testing.T) {
	if _, err := Start(exec.Command("/nonexistent"), 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for _, tt := range []struct{ names, want string }{
		{"one two", "one"}, {"none two", "two"}, {"none", ""}, {"text", ""},
		{filepath.Join(dir, "two"), "two"}, {filepath.Join(dir, "none"), ""},
	} {
		want := ""
		if tt.want != "" {
			want = filepath.Join(dir, tt.want)
		}
		got, err := Find(strings.Fields(tt.names)...)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, error %v, want %q", tt.names, got, err, want)
		}
	}
	if got, err := Find("sh"); err != nil || !strings.HasSuffix(got, "/sh") {
		t.Errorf("sh, with a poor PATH: got %q, error %v, want it found in the usual places", got, err)
	}
}

func TestAsk(t *testing.T) {
	script := func(text string) string {
		path := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct{ name, text, want, fails string }{
		{"both outputs", "echo a; echo b >&2", "a\nb\n", ""},
		{"fails", "echo why >&2; exit 4", "", "exit status 4: why"},
	} {
		got, err := Ask(t.Context(), "/bin/sh", script(tt.text))
		if got != tt.want || (tt.fails == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%s: got %q, error %v, want %q, error %q", tt.name, got, err, tt.want, tt.fails)
		}
	}
	got, err := Ask(t.Context(), "/bin/sh", script("head -c 3000000 /dev/zero"))
	if err != nil || len(got) != most {
		t.Errorf("a long answer: got %d bytes, error %v, want %d", len(got), err, most)
	}
	if got := Clip(strings.Repeat("x", 300)); len(got) != 200+len("…") {
		t.Errorf("got %d bytes, want 200 and a mark", len(got))
	}
}

// mysqlUser returns the account of MariaDB's packages. Only root can give files to it.
func mysqlUser(t *testing.T) *user.User {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Missing(t, "root", "to give files away")
	}
	u, err := user.Lookup("mysql")
	if err != nil {
		testenv.Missing(t, "mysql", err.Error())
	}
	return u
}

func TestAccounts(t *testing.T) {
	u := mysqlUser(t)
	open := t.TempDir()
	if err := os.Chmod(filepath.Dir(open), 0o755); err != nil {
		t.Fatal(err)
	}
	data, hidden := filepath.Join(open, "data"), filepath.Join(open, "hidden")
	inside := filepath.Join(hidden, "data")
	stranger := filepath.Join(open, "stranger")
	err := errors.Join(os.Mkdir(data, 0o700), os.Mkdir(hidden, 0o700), os.Mkdir(inside, 0o700), os.Mkdir(stranger, 0o700),
		os.Chown(stranger, 54321, 54321), os.WriteFile(filepath.Join(data, "f"), nil, 0o600),
		os.WriteFile(filepath.Join(open, "target"), nil, 0o600), os.Symlink("../target", filepath.Join(data, "link")))
	if err != nil {
		t.Fatal(err)
	}
	root, err := RunAs(data)
	if err != nil || !root.IsRoot() || !slices.Equal(root.Args(), []string{"--user=root"}) {
		t.Errorf("root's data: got %+v, error %v, want root", root, err)
	}
	if got, err := RunAs(stranger); err != nil || !got.IsRoot() {
		t.Errorf("an owner without a name: got %+v, error %v, want root", got, err)
	}
	if _, ok := Unprivileged(inside); ok {
		t.Error("got an account for a directory that it can't reach")
	}
	a, ok := Unprivileged(data)
	if !ok || a.IsRoot() {
		t.Fatalf("got %+v, %v, want the server's account", a, ok)
	}
	if err := a.Own(data); err != nil {
		t.Fatal(err)
	}
	owner := func(path string) string {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			t.Fatal(err)
		}
		who, err := user.LookupId(strconv.Itoa(int(st.Uid)))
		if err != nil {
			t.Fatal(err)
		}
		return who.Username
	}
	for path, want := range map[string]string{"data": u.Username, "data/f": u.Username, "data/link": u.Username, "target": "root"} {
		if got := owner(filepath.Join(open, path)); got != want {
			t.Errorf("%s: got owner %s, want %s", path, got, want)
		}
	}
	if got, err := RunAs(data); err != nil || got != a {
		t.Errorf("got %+v, error %v, want %+v", got, err, a)
	}
	if err := os.Chown(inside, 54321, 54321); err != nil {
		t.Fatal(err)
	}
	if got, err := RunAs(inside); err != nil || !got.IsRoot() {
		t.Errorf("an owner who can't get there: got %+v, error %v, want root", got, err)
	}

	// A private directory is where its owner can get to.
	t.Setenv("TMPDIR", hidden)
	dir, err := PrivateDir(a)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	if strings.HasPrefix(dir, hidden) || owner(dir) != u.Username {
		t.Errorf("got %s of %s, want one that %s can reach", dir, owner(dir), u.Username)
	}
	own, err := PrivateDir(Account{})
	if err != nil || !strings.HasPrefix(own, hidden) {
		t.Errorf("our own: got %s, error %v, want it in %s", own, err, hidden)
	}
	if got := (Account{}).Args(); got != nil {
		t.Errorf("got %q, want no option", got)
	}
}
