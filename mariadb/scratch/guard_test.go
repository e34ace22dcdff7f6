package scratch_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb/internal/scratchtest"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
)

// trap listens on a port and counts who comes.
func trap(t *testing.T, port int) (int, *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	var caught atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			caught.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().(*net.TCPAddr).Port, &caught
}

func query[T any](t *testing.T, s *scratch.Server, query string) T {
	t.Helper()
	var v T
	if err := s.DB().QueryRowContext(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// dangerous makes a data directory with everything in it that acts by itself or reaches out: events, a replica, foreign
// tables, plugins, functions from libraries, tables elsewhere. What lies elsewhere is copied in, as a restore does.
func dangerous(t *testing.T) (s *scratch.Server, outside string, caught []*atomic.Int32) {
	t.Helper()
	testenv.Need(t, "mariadbd")
	plugins := pluginDir(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil { // the server takes it over, and after it a trap
		t.Fatal(err)
	}
	replication, one := trap(t, 0)
	outside = t.TempDir()
	if err := os.Chmod(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	source := &scratch.Server{Dir: kit.DataDir(t), Args: []string{"--skip-networking=0",
		"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port), "--plugin-dir=" + plugins}}
	scratchtest.Start(t, source)
	scratchtest.Exec(t, source, "INSTALL SONAME 'ha_federatedx'")
	scratchtest.Exec(t, source, fmt.Sprintf(`CREATE DATABASE d; USE d;
		CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1);
		CREATE TABLE ticks (a TIMESTAMP DEFAULT NOW());
		CREATE TABLE inno (a INT) DATA DIRECTORY='%[1]s'; INSERT INTO inno VALUES (1), (2);
		CREATE TABLE my (a INT) ENGINE=MyISAM DATA DIRECTORY='%[1]s' INDEX DIRECTORY='%[1]s'; INSERT INTO my VALUES (1), (2);
		CREATE TABLE ar (a INT) ENGINE=Aria DATA DIRECTORY='%[1]s'; INSERT INTO ar VALUES (1), (2);
		CREATE USER far@'127.0.0.1' IDENTIFIED BY 'x'; GRANT ALL ON *.* TO far@'127.0.0.1';
		CREATE TABLE fed (a INT PRIMARY KEY) ENGINE=FEDERATED CONNECTION='mysql://far:x@127.0.0.1:%[2]d/d/t';
		CREATE SERVER there FOREIGN DATA WRAPPER mysql OPTIONS (HOST '127.0.0.1', PORT %[2]d, USER 'far', DATABASE 'd');
		CREATE EVENT tick ON SCHEDULE EVERY 1 SECOND STARTS '2020-01-01' DO INSERT INTO d.ticks VALUES ();
		INSTALL SONAME 'ha_archive'; INSTALL SONAME 'sql_errlog';
		INSERT INTO mysql.func VALUES ('evil', 0, 'evil.so', 'function');
		SET GLOBAL init_connect = 'INSERT INTO d.ticks VALUES ()';
		CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%[3]d, MASTER_USER='far', MASTER_CONNECT_RETRY=1`, outside, port, replication))
	if err := source.Stop(); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(source.Dir, "d")
	remove(t, filepath.Join(db, "my.MYD"), filepath.Join(db, "my.MYI"), filepath.Join(db, "ar.MAD"))
	for _, name := range []string{"my.MYD", "my.MYI", "ar.MAD"} {
		copyFile(t, filepath.Join(outside, name), filepath.Join(db, name))
	}
	copyFile(t, filepath.Join(outside, "d/inno.ibd"), filepath.Join(db, "inno.ibd"))
	_, two := trap(t, port)
	return &scratch.Server{Dir: source.Dir, Restored: true}, outside, []*atomic.Int32{one, two}
}

// pluginDir is where this machine's server has its plugins.
func pluginDir(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{"/usr/lib/mysql/plugin", "/usr/lib64/mysql/plugin", "/usr/lib64/mariadb/plugin"} {
		if _, err := os.Stat(filepath.Join(dir, "ha_federatedx.so")); err == nil {
			return dir
		}
	}
	testenv.Missing(t, "ha_federatedx", "no such plugin")
	return ""
}

// sums tells content and times of all files of a directory.
func sums(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		info, err2 := d.Info()
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %x %v\n", path, sha256.Sum256(text), info.ModTime())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestNothingActs: what would act by itself or reach out of a server on restored data does not.
func TestNothingActs(t *testing.T) {
	t.Parallel()
	s, outside, caught := dangerous(t)
	before := sums(t, outside)
	s.Args = []string{"--event-scheduler=ON", "--skip-networking=0", "--log-bin=/tmp/should-not-be", "--secure-file-priv="} // the guards win
	started := time.Now()
	scratchtest.Start(t, s)

	// The tables elsewhere are read from their copies here.
	for _, name := range openFiles(t, s.PID()) {
		if strings.HasPrefix(name, outside) {
			t.Errorf("the server has %s open", name)
		}
	}
	for _, name := range []string{"inno", "my", "ar"} {
		if n := query[int](t, s, "SELECT COUNT(*) FROM d."+name); n != 2 {
			t.Errorf("%s: got %d rows, want 2", name, n)
		}
		scratchtest.Exec(t, s, "INSERT INTO d."+name+" VALUES (3)")
	}
	all, err := s.CheckTables(t.Context(), scratch.CheckOptions{Parallel: 2, Mode: scratch.Extended})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range all {
		want := scratch.StatusOK
		if table.String() == "d.fed" {
			want = scratch.StatusNotChecked
		}
		if table.Status != want {
			t.Errorf("%s: got %s %q, want %s", table, table.Status, table.Messages, want)
		}
	}
	for _, tt := range []struct{ query, want string }{
		{"SELECT @@event_scheduler", "DISABLED"}, {"SELECT @@skip_networking", "1"}, {"SELECT @@log_bin", "0"},
		{"SELECT @@read_only", "1"}, {"SELECT @@local_infile", "0"}, {"SELECT @@have_symlink", "DISABLED"},
		{"SELECT @@init_connect", ""}, {"SELECT @@secure_file_priv", filepath.Dir(s.Socket()) + "/files/"},
		{"SELECT @@general_log + @@slow_query_log", "0"}, {"SELECT @@tmpdir", filepath.Dir(s.Socket())},
		{"SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name IN ('FEDERATED', 'SQL_ERROR_LOG') AND plugin_status = 'ACTIVE'", "0"},
		{"SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'FEEDBACK' AND plugin_status = 'ACTIVE'", "0"},
		{"SELECT COALESCE(LOAD_FILE('/etc/passwd'), 'nothing')", "nothing"},
	} {
		if got := query[string](t, s, tt.query); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.query, got, tt.want)
		}
	}
	for _, statement := range []string{
		"SELECT evil(1)", "SELECT * FROM d.fed", "SELECT 1 INTO OUTFILE '" + outside + "/x'", "START SLAVE", "SET GLOBAL event_scheduler = ON",
		"LOAD DATA INFILE '/etc/passwd' INTO TABLE d.t",
	} {
		if _, err := s.DB().ExecContext(t.Context(), statement); err == nil {
			t.Errorf("%s: got no error", statement)
		}
	}
	replicas, err := s.DB().QueryContext(t.Context(), "SHOW ALL SLAVES STATUS")
	if err != nil {
		t.Fatal(err)
	}
	if replicas.Next() {
		t.Error("there is a replica")
	}
	if err := replicas.Close(); err != nil {
		t.Error(err)
	}
	scratchtest.Exec(t, s, fmt.Sprintf("DO SLEEP(%.3f)", max(0, 2500*time.Millisecond-time.Since(started)).Seconds())) // for the event
	if n := query[int](t, s, "SELECT COUNT(*) FROM d.ticks WHERE a > '"+started.UTC().Format(time.DateTime)+"'"); n != 0 {
		t.Errorf("the event, or init_connect, has run %d times", n)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	for i, c := range caught {
		if n := c.Load(); n != 0 {
			t.Errorf("trap %d: got %d connections, want none", i, n)
		}
	}
	if after := sums(t, outside); after != before {
		t.Errorf("files elsewhere have changed: got\n%swant\n%s", after, before)
	}
	if _, err := os.Stat("/tmp/should-not-be.index"); err == nil {
		t.Error("a binary log was written")
	}
}

// TestDangerIsReal: without the guards the same data do act, so that the test above proves something.
func TestDangerIsReal(t *testing.T) {
	t.Parallel()
	s, _, caught := dangerous(t)
	program := &scratch.Server{Dir: s.Dir, Args: []string{"--skip-slave-start=0", "--event-scheduler=ON"}}
	scratchtest.Start(t, program)
	deadline := time.Now().Add(20 * time.Second)
	before := query[int](t, program, "SELECT COUNT(*) FROM d.ticks")
	for caught[0].Load() == 0 || query[int](t, program, "SELECT COUNT(*) FROM d.ticks") == before {
		if time.Now().After(deadline) {
			t.Fatalf("got %d connections to the source, and no event", caught[0].Load())
		}
		scratchtest.Exec(t, program, "DO SLEEP(0.1)")
	}
	if _, err := program.DB().ExecContext(t.Context(), "SELECT * FROM d.fed"); err == nil || caught[1].Load() == 0 {
		t.Errorf("got error %v, %d connections to the foreign table", err, caught[1].Load())
	}
}

func openFiles(t *testing.T, pid int) []string {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(links) == 0 {
		t.Fatalf("got no open files, error %v", err)
	}
	var names []string
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// TestSecure: what leads outside, or is not there, keeps a server from being started.
func TestSecure(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mariadbd")
	for _, tt := range []struct {
		name   string
		args   []string
		change func(dir, outside string) error
		want   error
	}{
		{"link to a file", nil, func(dir, outside string) error { return os.Symlink(outside, dir+"/d/t.MYD") }, scratch.ErrOutside},
		{"link to nothing", nil, func(dir, _ string) error { return os.Symlink("/nonexistent", dir+"/d/t.ibd") }, scratch.ErrOutside},
		{"database elsewhere", nil, func(dir, outside string) error { return os.Symlink(filepath.Dir(outside), dir+"/e") }, scratch.ErrOutside},
		{"other name", nil, func(dir, outside string) error { return os.Link(outside, dir+"/d/t.MYD") }, scratch.ErrOutside},
		{"pipe", nil, func(dir, _ string) error { return unix.Mkfifo(dir+"/d/t.MYD", 0o600) }, scratch.ErrOutside},
		{"system tablespace outside", []string{"--innodb_data_file_path=/x/ibdata1:12M:autoextend"}, nil, scratch.ErrOutside},
		{"system tablespace above", []string{"--innodb-data-file-path=ibdata1:12M;../ibdata2:12M"}, nil, scratch.ErrOutside},
		{"raw device", []string{"--innodb-data-file-path=sda:12Mnewraw"}, nil, scratch.ErrOutside},
		{"no system tablespace", nil, func(dir, _ string) error { return os.Remove(dir + "/ibdata1") }, scratch.ErrIncomplete},
		{"not all of it", []string{"--innodb-data-file-path=ibdata1:12M;ibdata2:12M"}, nil, scratch.ErrIncomplete},
		{"no database of the server", nil, func(dir, _ string) error { return os.Remove(dir + "/mysql") }, scratch.ErrIncomplete},
		{"no directory", nil, func(dir, _ string) error { return os.RemoveAll(dir) }, os.ErrNotExist},
		{"data that are none", nil, nil, scratch.ErrEnded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			outside := filepath.Join(t.TempDir(), "file")
			dir := filepath.Join(t.TempDir(), "data")
			err := errors.Join(os.MkdirAll(dir+"/mysql", 0o700), os.Mkdir(dir+"/d", 0o700), os.WriteFile(outside, []byte("x"), 0o600),
				os.WriteFile(dir+"/ibdata1", []byte("no pages"), 0o600), os.Mkdir(dir+"/lost+found", 0o700),
				os.WriteFile(dir+"/d/o.isl", []byte(outside), 0o600), syscall.Mknod(dir+"/old.sock", syscall.S_IFSOCK|0o600, 0))
			if err == nil && tt.change != nil {
				err = tt.change(dir, outside)
			}
			if err != nil {
				t.Fatal(err)
			}
			s := &scratch.Server{Dir: dir, Restored: true, Args: tt.args}
			if err = s.Start(t.Context()); err == nil {
				_ = s.Kill()
			}
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if tt.want == scratch.ErrEnded && !strings.Contains(err.Error(), "InnoDB") {
				t.Errorf("got %v, want the end of the log in it", err)
			}
			if text, err := os.ReadFile(outside); err != nil || string(text) != "x" {
				t.Errorf("file outside: got %q, error %v", text, err)
			}
			if s.PID() != 0 || s.Socket() != "" {
				t.Errorf("got process %d, socket %q, want none", s.PID(), s.Socket())
			}
		})
	}
}
