package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/internal/scratchtest"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
	"github.com/mbwrap/mbwrap/mariadb/server"
	"github.com/mbwrap/mbwrap/mariadb/version"
)

func connect(t *testing.T, o mariadb.ConnectOptions) *server.Conn {
	t.Helper()
	conn, err := server.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func ask[T any](t *testing.T, s *scratch.Server, query string) T {
	t.Helper()
	var v T
	if err := s.DB().QueryRowContext(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func TestFacts(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mariadbd")
	s := kit.New(t, "--log-bin=bin", "--server-id=7", "--innodb-log-file-size=8M")
	outside := t.TempDir()
	scratchtest.Exec(t, s, "CREATE DATABASE d; CREATE TABLE d.a (x int) ENGINE=InnoDB; CREATE TABLE d.m (x int) ENGINE=MyISAM; INSERT INTO d.a VALUES (1)")
	scratchtest.Exec(t, s, "CREATE TABLE d.o (x int) ENGINE=InnoDB DATA DIRECTORY='"+outside+"'")
	f, err := connect(t, scratchtest.AsRoot(s)).Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		got, want any
	}{
		{"version", f.VersionText, ask[string](t, s, "SELECT VERSION()")},
		{"version number", f.Version, version.Parse(f.VersionText)},
		{"comment", f.VersionComment, ask[string](t, s, "SELECT @@version_comment")},
		{"host", f.Hostname, ask[string](t, s, "SELECT @@hostname")},
		{"server id", f.ServerID, uint64(7)},
		{"data", f.DataDir, s.Dir},
		{"redo", f.RedoDir, s.Dir},
		{"undo", f.UndoDir, s.Dir},
		{"aria", f.AriaLogDir, s.Dir},
		{"socket", f.Socket, s.Socket()},
		{"pid file", f.PIDFile, ask[string](t, s, "SELECT @@pid_file")},
		{"tmp", f.TmpDir, ask[string](t, s, "SELECT @@tmpdir")},
		{"zone", f.TimeZone, ask[string](t, s, "SELECT @@system_time_zone")},
		{"binlog on", f.LogBin, true},
		{"gtid", f.GTID, ask[string](t, s, "SELECT @@gtid_binlog_pos")},
		{"redo size", f.RedoSize, int64(8 << 20)},
		{"open files", f.OpenFilesLimit, ask[int64](t, s, "SELECT @@open_files_limit")},
		{"tablespaces", f.Tablespaces, ask[int64](t, s, "SELECT COUNT(*) FROM information_schema.INNODB_SYS_TABLESPACES WHERE NAME <> 'innodb_temporary'")},
		{"encrypted", f.Encrypted, false},
		{"galera", f.Galera, ""},
		{"replicas", len(f.Replicas), 0},
		{"outside", fmt.Sprint(f.Data.Outside), fmt.Sprint([]string{filepath.Join(outside, "d/o.ibd")})},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	if f.BinlogFile != "bin.000001" || f.BinlogPos < 300 {
		t.Errorf("binlog: got %s %d, want a place in bin.000001", f.BinlogFile, f.BinlogPos)
	}
	if f.Data.Bytes < f.TablespaceBytes || f.Data.Bytes > f.TablespaceBytes+40<<20 || f.Data.Files < 50 {
		t.Errorf("data: got %+v, want a little more than InnoDB's %d bytes", f.Data, f.TablespaceBytes)
	}
	if d := time.Since(f.Started); d < 0 || d > time.Minute {
		t.Errorf("started %v ago, want less than a minute", d)
	}
	if _, err := connect(t, scratchtest.AsRoot(s)).Facts(cancelled(t)); err == nil {
		t.Error("with an ended context: got no error")
	}
}

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestReplicaFacts(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mariadbd")
	s := kit.New(t)
	scratchtest.Exec(t, s, "CHANGE MASTER 'up' TO MASTER_HOST='192.0.2.1', MASTER_PORT=3307, MASTER_USER='r'")
	f, err := connect(t, scratchtest.AsRoot(s)).Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := server.Replica{Name: "up", Source: "192.0.2.1:3307"}
	if len(f.Replicas) != 1 || f.Replicas[0] != want {
		t.Errorf("got %+v, want %+v", f.Replicas, want)
	}
	all := check(t, server.CheckOptions{ConnectOptions: scratchtest.AsRoot(s)})
	expect(t, all, "replica of 192.0.2.1:3307", server.LevelWarn, "does not run")
}

func check(t *testing.T, o server.CheckOptions) []server.Finding {
	t.Helper()
	all, err := server.Check(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// expect looks for one finding.
func expect(t *testing.T, all []server.Finding, what, level, detail string) {
	t.Helper()
	i := slices.IndexFunc(all, func(f server.Finding) bool { return f.What == what })
	if i < 0 {
		t.Errorf("no finding %q in %+v", what, all)
		return
	}
	f := all[i]
	if f.Level != level || !strings.Contains(f.Detail, detail) {
		t.Errorf("%s: got %s %q, want %s with %q", what, f.Level, f.Detail, level, detail)
	}
	if f.Level == server.LevelFail && f.Hint == "" {
		t.Errorf("%s: %q comes without a hint", what, f.Detail)
	}
}

func TestCheckHealthy(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mariadb-backup")
	testenv.Need(t, "mariadbd")
	s := kit.New(t, "--log-bin=bin")
	all := check(t, server.CheckOptions{ConnectOptions: scratchtest.AsRoot(s), SpaceDir: filepath.Join(t.TempDir(), "not yet there"), SpaceNeed: 1})
	for _, f := range all {
		if f.Level != server.LevelOK && f.What != "other backups" {
			t.Errorf("got %+v, want all well", f)
		}
	}
	for what, detail := range map[string]string{
		"tool": "mariadb-backup", "server": s.Dir, "versions": "the same series", "privileges": "all",
		"data directory": "belongs to the server, process " + strconv.Itoa(s.PID()), "data": "files", "open files": "tablespaces",
		"redo log": "MiB", "temporary directory": "free", "time zone": "", "free space": "free",
	} {
		expect(t, all, what, server.LevelOK, detail)
	}
}

func TestCheckProblems(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mariadb-backup")
	testenv.Need(t, "mariadbd")
	s := kit.New(t, "--log-bin=bin")
	scratchtest.Exec(t, s, "CREATE USER lim@localhost IDENTIFIED BY 'x'; GRANT PROCESS ON *.* TO lim@localhost")
	lim := scratchtest.AsRoot(s)
	lim.User, lim.Password = "lim", "x"
	wrong := lim
	wrong.Password = "S3cret"
	nowhere := scratchtest.AsRoot(s)
	nowhere.Socket = filepath.Join(t.TempDir(), "none")
	old := scratchtest.FakeTool(t, "echo mariadb-backup based on MariaDB server 10.4.1-MariaDB\n")
	newer := scratchtest.FakeTool(t, "echo mariadb-backup based on MariaDB server 99.1.1-MariaDB\n")
	odd := scratchtest.FakeTool(t, "echo hello\n")
	for _, tt := range []struct {
		name          string
		o             server.CheckOptions
		what          string
		level, detail string
	}{
		{"privileges", server.CheckOptions{ConnectOptions: lim}, "privileges", server.LevelFail, "missing: RELOAD to take the backup locks, BINLOG MONITOR"},
		{"privileges for more", server.CheckOptions{ConnectOptions: lim, Args: []string{"--slave-info"}}, "privileges", server.LevelFail, "SLAVE MONITOR"},
		{"wrong password", server.CheckOptions{ConnectOptions: wrong}, "server", server.LevelFail, "the server refuses this user"},
		{"no server", server.CheckOptions{ConnectOptions: nowhere}, "server", server.LevelFail, "no server answers"},
		{"no option file", server.CheckOptions{ConnectOptions: mariadb.ConnectOptions{DefaultsFile: "/nonexistent"}}, "server", server.LevelFail, "--defaults-file"},
		{"no tool", server.CheckOptions{ConnectOptions: scratchtest.AsRoot(s), Tool: "/nonexistent"}, "tool", server.LevelFail, "/nonexistent"},
		{"no version", server.CheckOptions{ConnectOptions: scratchtest.AsRoot(s), Tool: odd}, "tool", server.LevelFail, "hello"},
		{"old tool", server.CheckOptions{ConnectOptions: scratchtest.AsRoot(s), Tool: old}, "versions", server.LevelFail, "older than the server"},
		{"new tool", server.CheckOptions{ConnectOptions: scratchtest.AsRoot(s), Tool: newer}, "versions", server.LevelWarn, "newer series"},
		{"options", server.CheckOptions{ConnectOptions: scratchtest.AsRoot(s), Args: []string{"--compress"}}, "tool options", server.LevelFail, "--compress"},
		{"doubtful options", server.CheckOptions{ConnectOptions: scratchtest.AsRoot(s), Args: []string{"--extra-lsndir=/x"}}, "tool options", server.LevelWarn, "prove nothing"},
		{"space", server.CheckOptions{ConnectOptions: scratchtest.AsRoot(s), SpaceDir: "/", SpaceNeed: 1 << 60}, "free space", server.LevelFail, "the backup takes about"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := check(t, tt.o)
			expect(t, all, tt.what, tt.level, tt.detail)
			if strings.Contains(fmt.Sprint(all), "S3cret") {
				t.Errorf("findings show the password: %v", all)
			}
		})
	}
	if _, err := server.Check(cancelled(t), server.CheckOptions{ConnectOptions: scratchtest.AsRoot(s)}); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: got %v, want %v", err, context.Canceled)
	}
}

// forward passes connections on to a server, as a proxy does, and returns its port.
func forward(t *testing.T, network, address string) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() { relay(conn, network, address) })
		}
	})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		group.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port
}

// relay copies both ways until one side closes.
func relay(conn net.Conn, network, address string) {
	defer conn.Close()
	to, err := net.Dial(network, address)
	if err != nil {
		return
	}
	var group sync.WaitGroup
	group.Go(func() { _, _ = io.Copy(to, conn); _ = to.Close() })
	_, _ = io.Copy(conn, to)
	_ = conn.Close()
	group.Wait()
}

// TestCheckHost: which server answers, and whose data lies here, must be the same.
func TestCheckHost(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil { // the server takes it over
		t.Fatal(err)
	}
	testenv.Need(t, "mariadbd")
	near := kit.New(t, "--skip-networking=0", "--bind-address=127.0.0.1", "--port="+strconv.Itoa(port))
	far := kit.New(t)
	grant := "CREATE USER bk@'127.0.0.1' IDENTIFIED BY 'x'; GRANT ALL ON *.* TO bk@'127.0.0.1'"
	scratchtest.Exec(t, near, grant)
	scratchtest.Exec(t, far, "CREATE USER bk@localhost IDENTIFIED BY 'x'; GRANT ALL ON *.* TO bk@localhost; CREATE DATABASE far")
	tcp := func(port int) server.CheckOptions {
		return server.CheckOptions{ConnectOptions: mariadb.ConnectOptions{DefaultsFile: "/dev/null", User: "bk", Password: "x", Host: "127.0.0.1", Port: port}}
	}
	const what = "data directory"
	expect(t, check(t, tcp(port)), what, server.LevelOK, "process "+strconv.Itoa(near.PID()))

	proxied := check(t, tcp(forward(t, "tcp", "127.0.0.1:"+strconv.Itoa(port))))
	expect(t, proxied, what, server.LevelOK, "process "+strconv.Itoa(near.PID()))

	// Now the other server's directory can't be seen, as if it were on another host.
	away := far.Dir + ".away"
	if err := os.Rename(far.Dir, away); err != nil {
		t.Fatal(err)
	}
	elsewhere := tcp(forward(t, "unix", far.Socket()))
	expect(t, check(t, elsewhere), what, server.LevelFail, "which is not here")

	// Worse, at its place lies the data of another server, with all the same paths.
	if err := os.Symlink(near.Dir, far.Dir); err != nil {
		t.Fatal(err)
	}
	expect(t, check(t, elsewhere), what, server.LevelFail, "is not the one whose data is in")
	direct := server.CheckOptions{ConnectOptions: scratchtest.AsRoot(far)}
	expect(t, check(t, direct), what, server.LevelFail, "is not the one whose data is in")

	// At its place lies a copy that no server runs on.
	if err := os.Remove(far.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(far.Dir, os.DirFS(away)); err != nil {
		t.Fatal(err)
	}
	expect(t, check(t, direct), what, server.LevelWarn, "no server has locked it")
	redo, err := os.OpenFile(filepath.Join(far.Dir, "ib_logfile0"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = redo.WriteAt([]byte{0, 0, 1}, 4096)
	if err := errors.Join(err, redo.Close()); err != nil {
		t.Fatal(err)
	}
	expect(t, check(t, direct), what, server.LevelFail, "is not the one whose data is in")
	if err := errors.Join(os.RemoveAll(far.Dir), os.Rename(away, far.Dir)); err != nil {
		t.Fatal(err)
	}
	expect(t, check(t, direct), what, server.LevelOK, "process "+strconv.Itoa(far.PID()))
}

func TestConnect(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mariadbd")
	s := kit.New(t)
	scratchtest.Exec(t, s, `CREATE USER bk@localhost IDENTIFIED BY 'S3cret pw"#\\x'`)
	dir := t.TempDir()
	file := filepath.Join(dir, "my.cnf")
	text := "[mysqld]\nsocket=" + s.Socket() + "\n[client]\nuser=nobody\n[mariadb-backup]\nuser=bk\n[client]\npassword=\"S3cret pw\\\"#\\\\x\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := mariadb.ConnectOptions{DefaultsFile: "/dev/null", Socket: s.Socket()}
	with := func(user, password string) mariadb.ConnectOptions {
		o := empty
		o.User, o.Password = user, password
		return o
	}
	for _, tt := range []struct {
		name string
		o    mariadb.ConnectOptions
		want error
		user string
	}{
		{"as given", with("bk", `S3cret pw"#\x`), nil, "bk"},
		{"from the option file", mariadb.ConnectOptions{DefaultsFile: file}, nil, "bk"},
		{"given over the option file", mariadb.ConnectOptions{DefaultsFile: file, User: "root", Password: "x"}, server.ErrAccessDenied, ""},
		{"wrong password", with("bk", "S3cret"), server.ErrAccessDenied, ""},
		{"unknown user", with("nobody", ""), server.ErrAccessDenied, ""},
		{"no such socket", mariadb.ConnectOptions{DefaultsFile: "/dev/null", Socket: file + ".none"}, server.ErrUnreachable, ""},
		{"no such host", mariadb.ConnectOptions{DefaultsFile: "/dev/null", Host: "host.invalid"}, server.ErrUnreachable, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := server.Connect(t.Context(), tt.o)
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if err != nil {
				if strings.Contains(err.Error(), "S3cret") {
					t.Errorf("the error %q shows the password", err)
				}
				return
			}
			defer conn.Close()
			if o := conn.Options(); o.User != tt.user || o.Socket != s.Socket() {
				t.Errorf("got %+v, want user %q, socket %q", o, tt.user, s.Socket())
			}
		})
	}
}

// TestConnectBySystemAccount: the way the packages set root up, and with no user named.
func TestConnectBySystemAccount(t *testing.T) {
	t.Parallel()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	testenv.Need(t, "mariadbd")
	s := kit.New(t)
	for _, via := range []string{"unix_socket", "mysql_native_password USING 'invalid' OR unix_socket"} {
		scratchtest.Exec(t, s, "CREATE OR REPLACE USER "+me.Username+"@localhost IDENTIFIED VIA "+via)
		conn := connect(t, mariadb.ConnectOptions{DefaultsFile: "/dev/null", Socket: s.Socket()})
		if got := conn.Options().User; got != me.Username {
			t.Errorf("%s: got user %q, want %q", via, got, me.Username)
		}
	}
}

// TestConnectToSilence: what accepts and says nothing must not hold us up.
func TestConnectToSilence(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().(*net.TCPAddr)
	o := mariadb.ConnectOptions{DefaultsFile: "/dev/null", Host: addr.IP.String(), Port: addr.Port, Timeout: 200 * time.Millisecond}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := server.Connect(ctx, o); !errors.Is(err, server.ErrUnreachable) || ctx.Err() != nil {
		t.Errorf("got %v, context %v, want %v in time", err, ctx.Err(), server.ErrUnreachable)
	}
}
