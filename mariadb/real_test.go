package mariadb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/internal/scratchtest"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
	"github.com/mbwrap/mbwrap/mariadb/server"
	"github.com/mbwrap/mbwrap/mariadb/version"
	"github.com/mbwrap/mbwrap/xbstream"
)

const realPassword = `S3cret pw"#\x`

// loaded returns a server with some data and a user who may take backups, and how to connect as that user.
func loaded(t *testing.T) (*scratch.Server, mariadb.ConnectOptions) {
	t.Helper()
	testenv.Need(t, "mariadb-backup")
	testenv.Need(t, "mariadbd")
	s := kit.New(t, "--log-bin=bin", "--server-id=7")
	scratchtest.Exec(t, s, `CREATE DATABASE shop; USE shop;
		CREATE TABLE error_log (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(200)) ENGINE=InnoDB;
		INSERT INTO error_log (v) SELECT REPEAT(MD5(seq), 5) FROM seq_1_to_5000;
		CREATE TABLE m (a INT) ENGINE=MyISAM; INSERT INTO m VALUES (1), (2);
		CREATE TABLE a (a INT) ENGINE=Aria; INSERT INTO a VALUES (3);
		CREATE USER bk@localhost IDENTIFIED BY 'S3cret pw"#\\x';
		GRANT RELOAD, PROCESS, LOCK TABLES, BINLOG MONITOR ON *.* TO bk@localhost`)
	o := scratchtest.AsRoot(s)
	o.User, o.Password = "bk", realPassword
	return s, o
}

// backup takes a backup and returns its stream and what the stream says of itself.
func backup(t *testing.T, o mariadb.BackupOptions) ([]byte, mariadb.Position, mariadb.Report) {
	t.Helper()
	p, err := mariadb.StartBackup(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	var meta mariadb.Metadata
	checker := xbstream.NewChecker(xbstream.Options{Handler: &meta})
	if _, err := io.Copy(io.MultiWriter(&stream, checker), p); err != nil {
		t.Fatal(err)
	}
	if err := checker.Close(); err != nil {
		t.Fatal(err)
	}
	position, err := meta.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return stream.Bytes(), position, p.Report()
}

func TestRealBackup(t *testing.T) {
	t.Parallel()
	s, o := loaded(t)
	var log bytes.Buffer
	var files, phases int
	started := time.Now().Truncate(time.Second)
	stream, p, r := backup(t, mariadb.BackupOptions{ConnectOptions: o, Log: &log, Parallel: 2, OnEvent: func(e mariadb.Event) {
		switch e.Kind {
		case mariadb.EventFile:
			files++
		case mariadb.EventPhase:
			phases++
		}
	}})
	var file, gtid string
	var pos uint64
	if err := s.DB().QueryRow("SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_VARIABLES WHERE VARIABLE_NAME='gtid_binlog_pos'").Scan(&gtid); err != nil {
		t.Fatal(err)
	}
	conn, err := server.Connect(t.Context(), scratchtest.AsRoot(s))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f, err := conn.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file, pos = f.BinlogFile, f.BinlogPos
	for _, tt := range []struct {
		name      string
		got, want any
	}{
		{"binlog", fmt.Sprint(p.Binlog.File, " ", p.Binlog.Pos, " ", p.Binlog.GTID), fmt.Sprint(file, " ", pos, " ", gtid)},
		{"type", p.BackupType, "full-backuped"},
		{"from", p.FromLSN, uint64(0)},
		{"to", p.ToLSN, r.CheckpointLSN},
		{"last", p.LastLSN, r.RedoTo},
		{"server", p.ServerVersion, f.VersionText},
		{"server in the report", r.Server, f.Version},
		{"format", p.Format, "mbstream"},
		{"page size", p.PageSize, 16384},
		{"phases", phases, 6},
		{"errors", fmt.Sprint(r.Errors), "[]"},
		{"files", files, r.Files},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	if err := p.CheckLSN(0); err != nil {
		t.Error(err)
	}
	if p.Start.Before(started) || p.End.Before(p.Start) || time.Since(p.End) > time.Minute {
		t.Errorf("got a backup from %v to %v, want one since %v", p.Start, p.End, started)
	}
	if r.Files < 50 || r.DDLBlocked <= 0 || r.CommitsBlocked <= 0 || r.CommitsBlocked > r.DDLBlocked {
		t.Errorf("report: got %+v", r)
	}
	for what, text := range map[string][]byte{"stream": stream, "log": log.Bytes(), "report": fmt.Appendf(nil, "%+v", r)} {
		if bytes.Contains(text, []byte(realPassword)) {
			t.Errorf("%s holds the password", what)
		}
	}
	if !strings.Contains(p.Info["tool_command"], "--defaults-file=/dev/fd/3") {
		t.Errorf("tool_command: got %q, want the password handed over by descriptor", p.Info["tool_command"])
	}
}

// TestRealRoundTrip takes a full and an incremental backup, prepares both, and starts a server on the result.
func TestRealRoundTrip(t *testing.T) {
	t.Parallel()
	mbstream := testenv.Need(t, "mbstream")
	s, o := loaded(t)
	full, p, _ := backup(t, mariadb.BackupOptions{ConnectOptions: o})
	scratchtest.Exec(t, s, "INSERT INTO shop.error_log (v) SELECT MD5(seq) FROM seq_1_to_1000; CREATE TABLE shop.late (a INT); INSERT INTO shop.late VALUES (4)")
	incr, q, _ := backup(t, mariadb.BackupOptions{ConnectOptions: o, IncrementalLSN: p.ToLSN})
	if err := q.CheckLSN(p.ToLSN); err != nil {
		t.Error(err)
	}
	if !q.Incremental || len(incr) >= len(full) {
		t.Errorf("got %d bytes, incremental %v, want fewer than %d, true", len(incr), q.Incremental, len(full))
	}
	want, err := s.Checksums(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	base, delta := extract(t, mbstream, full), extract(t, mbstream, incr)
	made := version.Parse(p.ServerVersion)
	r, err := mariadb.Prepare(t.Context(), mariadb.PrepareOptions{Dir: base, Made: made})
	if err != nil || !r.Completed {
		t.Fatalf("prepare base: got %v, report %+v", err, r)
	}
	if _, err := mariadb.Prepare(t.Context(), mariadb.PrepareOptions{Dir: base, IncrementalDir: delta, UseMemory: 100 << 20}); err != nil {
		t.Fatalf("prepare incremental: %v", err)
	}
	restored := &scratch.Server{Dir: base, Restored: true, Args: p.ServerArgs()}
	scratchtest.Start(t, restored)
	tables, err := restored.CheckTables(t.Context(), scratch.CheckOptions{Mode: scratch.Extended, Parallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if table.Status != scratch.StatusOK {
			t.Errorf("%s: got %s %q, want it to be well", table, table.Status, table.Messages)
		}
	}
	got, err := restored.Checksums(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func extract(t *testing.T, mbstream string, stream []byte) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(mbstream, "-x", "-C", dir)
	cmd.Stdin = bytes.NewReader(stream)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mbstream: %v: %s", err, out)
	}
	return dir
}

func TestRealFailures(t *testing.T) {
	t.Parallel()
	s, o := loaded(t)
	scratchtest.Exec(t, s, "CREATE USER lim@localhost; GRANT PROCESS ON *.* TO lim@localhost")
	with := func(change func(*mariadb.BackupOptions)) mariadb.BackupOptions {
		b := mariadb.BackupOptions{ConnectOptions: o}
		change(&b)
		return b
	}
	for _, tt := range []struct {
		name string
		o    mariadb.BackupOptions
		want string
	}{
		{"wrong password", with(func(b *mariadb.BackupOptions) { b.Password = "S3cret" }), "does not let this user in"},
		{"too few privileges", with(func(b *mariadb.BackupOptions) { b.User, b.Password = "lim", "" }), "lacks a privilege"},
		{"no server", with(func(b *mariadb.BackupOptions) { b.Socket += ".none" }), "no server at this socket"},
		{"unknown option", with(func(b *mariadb.BackupOptions) { b.Args = []string{"--frob=1"} }), "does not know an option"},
		{"start before all data", with(func(b *mariadb.BackupOptions) { b.IncrementalLSN = 12 }), "take a full backup"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := mariadb.StartBackup(t.Context(), tt.o)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, p)
			var failure *mariadb.ToolError
			if !errors.As(err, &failure) || failure.Exit == 0 || !strings.Contains(failure.Cause+failure.Hint, tt.want) {
				t.Errorf("got %v, want a ToolError with %q", err, tt.want)
			}
			if strings.Contains(fmt.Sprintf("%v %+v", err, p.Report()), "S3cret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// TestRealFuture: the tool accepts a start that lies in the future; the check of the LSNs does not.
func TestRealFuture(t *testing.T) {
	t.Parallel()
	_, o := loaded(t)
	const future = 1 << 50
	_, p, _ := backup(t, mariadb.BackupOptions{ConnectOptions: o, IncrementalLSN: future})
	if err := p.CheckLSN(future); err == nil {
		t.Errorf("got %+v accepted, want an error", p)
	}
}

// TestRealStop stops the tool while it runs, looks for the password while it does, and sees the server free after it.
func TestRealStop(t *testing.T) {
	t.Parallel()
	s, o := loaded(t)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := mariadb.StartBackup(ctx, mariadb.BackupOptions{ConnectOptions: o})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(p, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID()), name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("S3cret")) || len(text) == 0 && name == "cmdline" {
			t.Errorf("%s: got %q, want no password in it", name, text)
		}
	}
	cancel()
	within(t, 5*time.Second, "stop", func() {
		if _, err := io.Copy(io.Discard, p); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	})
	if r := p.Report(); !r.Stopped || r.Signal != "interrupt" {
		t.Errorf("got %+v, want ended by SIGINT", r)
	}
	scratchtest.Exec(t, s, "SET lock_wait_timeout=5; DROP TABLE shop.m")
}

// TestPrepareNeedsNoTmpdir: what the environment calls the temporary directory may be full, or not ours to write to.
func TestPrepareNeedsNoTmpdir(t *testing.T) {
	dir := t.TempDir()
	args := filepath.Join(t.TempDir(), "args")
	tool := scratchtest.FakeTool(t, "echo \"$@\" > "+args+"; echo 'completed OK!' >&2\n")
	t.Setenv("TMPDIR", "/nonexistent")
	if _, err := mariadb.Prepare(t.Context(), mariadb.PrepareOptions{Tool: tool, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(args)
	if err != nil || !strings.Contains(string(text), " --tmpdir="+dir+" ") {
		t.Errorf("got arguments %q, %v, want --tmpdir=%s", text, err, dir)
	}
}

func TestPrepareFailures(t *testing.T) {
	testenv.Need(t, "mariadb-backup")
	if r, err := mariadb.Prepare(t.Context(), mariadb.PrepareOptions{Dir: t.TempDir()}); err == nil || len(r.Errors) == 0 {
		t.Errorf("empty directory: got %v, report %+v, want an error", err, r)
	}
	var usage *mariadb.UsageError
	for _, made := range []version.Number{{Major: 99, Minor: 1}, {Major: 10, Minor: 5, Patch: 3}} {
		_, err := mariadb.Prepare(t.Context(), mariadb.PrepareOptions{Dir: t.TempDir(), Made: made})
		if !errors.Is(err, mariadb.ErrToolVersion) || !errors.As(err, &usage) || !strings.Contains(usage.Hint, fmt.Sprintf("%d.%d", made.Major, made.Minor)) {
			t.Errorf("backup of %v: got %v, want %v with advice", made, err, mariadb.ErrToolVersion)
		}
	}
	if _, err := mariadb.Prepare(t.Context(), mariadb.PrepareOptions{Tool: "/nonexistent"}); !errors.Is(err, mariadb.ErrNoTool) {
		t.Errorf("no tool: got %v, want %v", err, mariadb.ErrNoTool)
	}
	odd := scratchtest.FakeTool(t, "echo hello\n")
	if _, err := mariadb.Prepare(t.Context(), mariadb.PrepareOptions{Tool: odd, Made: version.Number{Major: 10, Minor: 11}}); err == nil || !strings.Contains(err.Error(), "hello") {
		t.Errorf("tool without version: got %v, want an error", err)
	}
	slow := scratchtest.FakeTool(t, "exec sleep 1000\n")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := mariadb.Prepare(ctx, mariadb.PrepareOptions{Tool: slow}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: got %v, want %v", err, context.DeadlineExceeded)
	}
}
