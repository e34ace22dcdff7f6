package innodb_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/internal/testenv"
)

// A server is a real one with a socket in a directory of its own, for the time of a test.
type server struct {
	dir  string
	data string
	opts []string
}

// startServer initialises and starts a server with the given options.
func startServer(t *testing.T, opts ...string) *server {
	t.Helper()
	install, daemon := testenv.Need(t, "mariadb-install-db"), testenv.Need(t, "mariadbd")
	testenv.Need(t, "mariadb-backup")
	testenv.Need(t, "mariadb")
	dir, err := os.MkdirTemp("", "pages") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &server{dir: dir, data: filepath.Join(dir, "data")}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(dir, "keys")
	if err := os.WriteFile(keys, []byte("1;"+strings.Repeat("0123456789abcdef", 4)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.opts = append([]string{"--datadir=" + s.data, "--user=" + me.Username, "--innodb-buffer-pool-size=24M",
		"--innodb-log-file-size=32M", "--loose-file-key-management", "--plugin-load-add=file_key_management",
		"--loose-file-key-management-filename=" + keys, "--aria-log-file-size=8M"}, opts...)
	out, err := exec.CommandContext(t.Context(), install, append([]string{"--no-defaults", "--skip-test-db", "--tmpdir=" + dir,
		"--auth-root-authentication-method=normal"}, s.opts...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	s.run(t, daemon)
	return s
}

// run starts the daemon and waits until it answers.
func (s *server) run(t *testing.T, daemon string) {
	t.Helper()
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// The shell kills the server when its input ends: however the test ends, nothing is left behind.
	cmd := exec.Command("/bin/sh", append([]string{"-c", `"$@" & pid=$!; read -r end; kill -9 $pid; wait`, "sh", daemon,
		"--no-defaults", "--skip-networking", "--innodb-flush-log-at-trx-commit=0",
		"--innodb-max-dirty-pages-pct=0", "--innodb-max-dirty-pages-pct-lwm=0", "--tmpdir=" + s.dir,
		"--socket=" + s.socket(), "--pid-file=" + filepath.Join(s.dir, "pid")}, s.opts...)...)
	cmd.Stdout, cmd.Stderr = log, log
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		cmd.Wait()
	})
	for deadline := time.Now().Add(60 * time.Second); s.try(t.Context(), "select 1") != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("mariadbd does not answer\n%s", text)
		}
	}
}

func (s *server) socket() string { return filepath.Join(s.dir, "s") }

// try runs statements and returns what went wrong.
func (s *server) try(ctx context.Context, sql string) error {
	cmd := exec.CommandContext(ctx, "mariadb", "--no-defaults", "-uroot", "-S", s.socket(), "-N", "--default-character-set=utf8mb4")
	cmd.Stdin = strings.NewReader(sql)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// sql runs statements that must succeed.
func (s *server) sql(t *testing.T, sql string) {
	t.Helper()
	if err := s.try(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// query returns what a query prints.
func (s *server) query(t *testing.T, sql string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "mariadb", "--no-defaults", "-uroot", "-S", s.socket(), "-N",
		"--default-character-set=utf8mb4", "-e", sql).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// settle waits until all changed pages are in the files.
func (s *server) settle(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for s.query(t, "select variable_value from information_schema.global_status where variable_name='innodb_buffer_pool_pages_dirty'") != "0" {
		if time.Now().After(deadline) {
			t.Log("the server did not write all its pages in time")
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// backup returns the stream of a backup. The tool fails now and then when a table is renamed under its eyes; it is then
// asked again.
func (s *server) backup(t *testing.T, args ...string) []byte {
	t.Helper()
	for try := 1; ; try++ {
		var stream, text bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "mariadb-backup", append([]string{"--no-defaults", "--backup", "--stream=mbstream",
			"--user=root", "--socket=" + s.socket(), "--datadir=" + s.data}, args...)...)
		cmd.Stdout, cmd.Stderr, cmd.Dir = &stream, &text, s.dir
		err := cmd.Run()
		if err == nil && strings.Contains(text.String(), "completed OK!") {
			return stream.Bytes()
		}
		lines := strings.Split(text.String(), "\n")
		end := strings.Join(lines[max(0, len(lines)-10):], "\n")
		if strings.Contains(text.String(), "corruption detected") || try == 4 {
			t.Fatalf("mariadb-backup: %v\n%s", err, end)
		}
		t.Logf("mariadb-backup, try %d: %v\n%s", try, err, end)
	}
}
