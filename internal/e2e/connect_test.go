package e2e_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// secret is a password that is easy to find where it should not be, and hard to quote.
const secret = `s3cr3t "quo'ted" \ #1 $HOME`

// privileges are what a backup user needs.
const privileges = "RELOAD, PROCESS, LOCK TABLES, BINLOG MONITOR, REPLICA MONITOR, CONNECTION ADMIN, REPLICATION SLAVE ADMIN"

// freePort returns a port of the loopback interface that nobody listened on a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestConnecting backs up as a user with a password, in every way there is to connect and to hand over the password.
// No command line, no log and no stored byte has it.
func TestConnecting(t *testing.T) {
	port := freePort(t)
	s := startNew(t, "--skip-networking=0", "--bind-address=127.0.0.1", "--port="+strconv.Itoa(port))
	quoted := "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(secret) + "'"
	s.exec("CREATE DATABASE d", "CREATE TABLE d.t (a INT)")
	for _, host := range []string{"localhost", "127.0.0.1"} {
		s.exec(fmt.Sprintf("CREATE USER backup@'%s' IDENTIFIED BY %s", host, quoted), fmt.Sprintf("GRANT %s ON *.* TO backup@'%s'", privileges, host))
	}
	dir := t.TempDir()
	password, wrong := filepath.Join(dir, "password"), filepath.Join(dir, "wrong")
	options := filepath.Join(dir, "my.cnf")
	text := fmt.Sprintf("[client]\nuser=backup\npassword=\"%s\"\nsocket=%s\n", strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(secret), s.Socket())
	for name, content := range map[string]string{password: secret + "\n", wrong: "nonsense\n", options: text} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		env  string
		args []string
		code int
	}{
		{"socket and password file", "", []string{"--user", "backup", "--socket", s.Socket(), "--password-file", password}, 0},
		{"socket and environment", "MBWRAP_PASSWORD=" + secret, []string{"--user", "backup", "--socket", s.Socket()}, 0},
		{"port and password file", "", []string{"--user", "backup", "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--password-file", password}, 0},
		{"option file", "", []string{"--defaults-file", options}, 0},
		{"wrong password", "", []string{"--user", "backup", "--socket", s.Socket(), "--password-file", wrong}, 4},
		{"wrong password, no look before", "", []string{"--skip-check", "--user", "backup", "--socket", s.Socket(), "--password-file", wrong}, 4},
		{"nobody listens", "", []string{"--user", "backup", "--host", "127.0.0.1", "--port", strconv.Itoa(freePort(t)), "--password-file", password}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			repo := filepath.Join(t.TempDir(), "repo")
			log := filepath.Join(t.TempDir(), "log")
			args := append([]string{"backup", "--repo", repo, "--server", "e2e", "-v", "--log-file", log}, tt.args...)
			r := suite.cgo.start(t, call{env: append(ordinaryEnv(), tt.env)}, args...)
			looked := watch(r)
			o := r.wait()
			if o.code != tt.code {
				t.Errorf("got exit code %d, %q, want %d", o.code, o.stderr, tt.code)
			}
			lines := <-looked
			if tt.code == 0 && !strings.Contains(lines, "--backup") {
				t.Error("the tool's command line was not seen")
			}
			said, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			for what, text := range map[string]string{"command lines": lines, "output": o.stdout + o.stderr, "log": string(said), "repository": stored(t, repo)} {
				if strings.Contains(text, "s3cr3t") || strings.Contains(text, "nonsense") {
					t.Errorf("the password is in the %s: %q", what, text)
				}
			}
			if tt.code == 0 {
				nothingNew(t, repo, 1)
			}
		})
	}
}

// watch collects the command lines and environments of all that r starts, as long as it runs. Between fork and exec a
// child still has those of mbwrap itself, which don't count.
func watch(r *running) <-chan string {
	looked := make(chan string, 1)
	go func() {
		seen := map[string]bool{}
		for r.running() {
			for _, pid := range children(r.cmd.Process.Pid) {
				dir := filepath.Join("/proc", strconv.Itoa(pid))
				line, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may have ended
				if strings.HasPrefix(string(line), r.cmd.Path+"\x00") {
					continue
				}
				env, _ := os.ReadFile(filepath.Join(dir, "environ"))
				seen[string(line)+"\n"+string(env)] = true
			}
		}
		var all strings.Builder
		for text := range seen {
			all.WriteString(text + "\n")
		}
		looked <- all.String()
	}()
	return looked
}

// stored is everything that a repository holds and that can be read without decoding the data.
func stored(t *testing.T, repo string) string {
	t.Helper()
	if _, err := os.Stat(repo); err != nil {
		return ""
	}
	var all strings.Builder
	for _, name := range fileNames(t, repo) {
		data, err := os.ReadFile(filepath.Join(repo, name))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	if rows := list(t, repo); len(rows) > 0 {
		all.WriteString(suite.cgo.must(t, "cat", "latest", "--repo", repo, "--server", "e2e").stdout)
	}
	return all.String()
}
