package xbstream_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/xbstream"
)

// A server is a throwaway MariaDB server on a private socket.
type server struct {
	client, backup string // programs
	dir            string // short, for the socket's sake
}

// startServer makes a data directory and starts a server on it, which ends with the test.
func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{client: testenv.Need(t, "mariadb"), backup: testenv.Need(t, "mariadb-backup")}
	install, daemon := testenv.Need(t, "mariadb-install-db"), testenv.Need(t, "mariadbd")
	var err error
	if s.dir, err = os.MkdirTemp("", "xbs"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(s.dir) })
	args := []string{"--no-defaults", "--datadir=" + s.data()}
	if os.Getuid() == 0 {
		args = append(args, "--user=root")
	}
	out, err := exec.CommandContext(t.Context(), install, append(args, "--auth-root-authentication-method=normal", "--skip-test-db")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(daemon, append(args, "--socket="+s.socket(), "--pid-file="+s.dir+"/pid", "--skip-networking", "--performance-schema=off", "--sync-frm=0", "--innodb-flush-method=nosync", "--aria-sync-log-dir=NEVER",
		"--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0",
		"--aria-log-file-size=8M", "--aria-pagecache-buffer-size=8M", "--key-buffer-size=2M")...)
	runUntilReady(t, cmd)
	return s
}

func (s *server) data() string   { return filepath.Join(s.dir, "data") }
func (s *server) socket() string { return filepath.Join(s.dir, "s") }

// runUntilReady starts the server, returns when it accepts connections, and stops it when the test ends.
func runUntilReady(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	var messages bytes.Buffer
	go func() {
		defer close(ended)
		isReady := false
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if !isReady && strings.Contains(lines.Text(), "ready for connections") {
				isReady = true
				close(ready)
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
	})
	select {
	case <-ready:
	case <-ended:
		t.Fatalf("the server ended: %s", messages.String())
	case <-time.After(60 * time.Second):
		t.Fatal("the server is not ready after 60 s")
	}
}

// sql runs statements. With force it goes on after one that fails, as one does that has to wait for the backup's lock.
func (s *server) sql(ctx context.Context, statements string, force bool) error {
	args := []string{"--no-defaults", "--socket=" + s.socket(), "--user=root"}
	if force {
		args = append(args, "--force", "--init-command=set lock_wait_timeout=0")
	}
	cmd := exec.CommandContext(ctx, s.client, args...)
	cmd.Stdin = strings.NewReader(statements)
	if out, err := cmd.CombinedOutput(); err != nil && !force {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

const perKind = 4 // tables of each kind and purpose

// engines are those whose tables a backup sends again, renames or removes when they change meanwhile.
var engines = []struct{ prefix, spec string }{
	{"m", "engine=myisam"}, {"a", "engine=aria"}, {"n", "engine=aria transactional=0"}, {"c", "engine=csv"},
}

// before makes the tables: some to rename (r), drop (d), truncate (t), create anew (c), alter (l), swap (s, w).
func before() string {
	var b strings.Builder
	b.WriteString("create database gone; create database d; use d;\n")
	b.WriteString("create table big(id int primary key, a varchar(1000)) engine=myisam; insert into big select seq, repeat(md5(seq), 25) from seq_1_to_16000;\n")
	b.WriteString("create table log(id int primary key, a varchar(1000)) engine=aria; insert into log select seq, repeat(md5(seq), 25) from seq_1_to_12000;\n")
	for _, e := range engines {
		for _, purpose := range "rdtclsw" {
			for i := range perKind {
				fmt.Fprintf(&b, "create table %s%c%d(id int not null) %s; insert into %[1]s%[2]c%[3]d values (%[3]d);\n", e.prefix, purpose, i, e.spec)
			}
		}
		fmt.Fprintf(&b, "create table gone.%s(id int not null) %s;\n", e.prefix, e.spec)
	}
	for i := range perKind {
		for _, purpose := range "rdt" {
			fmt.Fprintf(&b, "create table p%c%d(id int) engine=myisam partition by hash(id) partitions 2; insert into p%[1]c%[2]d values (%[2]d);\n", purpose, i)
		}
	}
	return b.String() + "flush tables;\n"
}

// during changes the first or the second half of the tables.
func during(half int) string {
	var b strings.Builder
	b.WriteString("use d;\n")
	for i := half * perKind / 2; i < (half+1)*perKind/2; i++ {
		for _, e := range engines {
			fmt.Fprintf(&b, "rename table %[1]sr%[2]d to %[1]sx%[2]d; drop table %[1]sd%[2]d; truncate %[1]st%[2]d;\n", e.prefix, i)
			fmt.Fprintf(&b, "create or replace table %sc%d(id int not null, b int not null) %s;\n", e.prefix, i, e.spec)
			fmt.Fprintf(&b, "rename table %[1]ss%[2]d to tmp, %[1]sw%[2]d to %[1]ss%[2]d, tmp to %[1]sw%[2]d;\n", e.prefix, i)
			fmt.Fprintf(&b, "create table %sy%d(id int not null) %s; create table %[1]sz%[2]d(id int not null) %[3]s; drop table %[1]sz%[2]d;\n", e.prefix, i, e.spec)
		}
		fmt.Fprintf(&b, "rename table pr%[1]d to px%[1]d; drop table pd%[1]d;\n", i)
		fmt.Fprintf(&b, "create database new%d; create table new%[1]d.t(id int) engine=myisam; alter database new%[1]d charset utf8mb4;\n", i)
	}
	return b.String()
}

// alters are allowed in the first stage of a backup only. The update makes the Aria log go on in a second file.
func alters() string {
	var b strings.Builder
	b.WriteString("drop database gone; use d; update log set a = repeat(md5(id + 1), 25);\n")
	for i := range perKind {
		for _, e := range engines {
			fmt.Fprintf(&b, "alter table %sl%d add column z int not null;\n", e.prefix, i)
		}
		fmt.Fprintf(&b, "truncate pt%d;\n", i)
	}
	return b.String()
}

// counter is a Handler that counts chunks by type and flag, and says when the tool is at a path.
type counter struct {
	types   map[string]int
	waitFor string
	found   bool
}

func (c *counter) Chunk(h *xbstream.Chunk) error {
	c.types[h.Type.String()]++
	if h.Flags&xbstream.FlagRewrite != 0 {
		c.types["rewrite"]++
	}
	c.found = c.found || h.Path == c.waitFor
	return nil
}

func (c *counter) Data([]byte) error { return nil }

// takeBackup runs the tool, changes tables while it is blocked in its first stage, again while it copies MyISAM tables,
// and goes on changing them until it is done. It returns the stream's file.
func (s *server) takeBackup(t *testing.T, c *xbstream.Checker, seen *counter) string {
	t.Helper()
	var messages bytes.Buffer
	cmd := exec.CommandContext(t.Context(), s.backup, "--no-defaults", "--backup", "--stream=mbstream", "--parallel=3", "--user=root",
		"--socket="+s.socket(), "--datadir="+s.data(), "--target-dir="+filepath.Join(s.dir, "none"))
	cmd.Stderr = &messages
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(s.dir, "stream"))
	if err != nil {
		t.Fatal(err)
	}
	dst := io.MultiWriter(file, c)
	copyUntil(t, dst, stdout, "aria_log_control", seen)
	s.change(t, alters()+during(0))
	copyUntil(t, dst, stdout, "d/big.MYD", seen)
	s.change(t, during(1))
	ctx, stop := context.WithCancel(t.Context())
	done := s.keepChanging(ctx)
	_, err = io.Copy(dst, stdout)
	stop()
	<-done
	if err := errors.Join(err, file.Close(), cmd.Wait()); err != nil || !strings.Contains(messages.String(), "completed OK!") {
		t.Fatalf("backup: %v\n%s", err, messages.String())
	}
	return file.Name()
}

func (s *server) change(t *testing.T, statements string) {
	t.Helper()
	if err := s.sql(t.Context(), statements, true); err != nil {
		t.Fatal(err)
	}
}

// copyUntil copies until a chunk of path is seen.
func copyUntil(t *testing.T, dst io.Writer, src io.Reader, path string, seen *counter) {
	t.Helper()
	seen.waitFor, seen.found = path, false
	for b := make([]byte, 64<<10); !seen.found; {
		n, err := src.Read(b)
		if _, werr := dst.Write(b[:n]); werr != nil || err != nil {
			t.Fatalf("waiting for %q: %v, %v", path, werr, err)
		}
	}
}

// keepChanging changes tables until ctx is done, then closes what it returned.
func (s *server) keepChanging(ctx context.Context) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			_ = s.sql(ctx, fmt.Sprintf("create database loop%[1]d; use loop%[1]d; create table t(id int not null) engine=%[2]s; insert into t values(1);"+
				"rename table t to u; create table t(id int not null) engine=%[2]s; truncate u; drop database loop%[1]d;", i, []string{"myisam", "aria", "csv"}[i%3]), true)
		}
	}()
	return done
}

// TestRealBackup takes a backup while tables that are not InnoDB's are renamed, dropped, created and altered: the stream
// has every type of chunk that MariaDB writes. mbstream may refuse such a stream; it must be checked, extracted and prepared.
func TestRealBackup(t *testing.T) {
	s := startServer(t)
	if err := s.sql(t.Context(), before(), false); err != nil {
		t.Fatal(err)
	}
	seen := &counter{types: map[string]int{}}
	c := xbstream.NewChecker(xbstream.Options{Handler: seen})
	file := s.takeBackup(t, c, seen)
	if err := c.Close(); err != nil {
		t.Fatalf("the stream of a good backup: %v", err)
	}
	t.Logf("%+v, %v", c.Stats(), seen.types)
	for _, typ := range []string{"payload", "end", "rename", "remove", "rewrite", "seek"} {
		if seen.types[typ] == 0 {
			t.Errorf("no %s chunk in the stream", typ)
		}
	}
	if got := c.Stats(); got.Ignored != 0 || got.Dialect != xbstream.DialectMariaDB || got.Rewrites == 0 {
		t.Errorf("got %+v, want rewrites, nothing ignored, and MariaDB's dialect", got)
	}
	dir := filepath.Join(s.dir, "restored")
	if got := extractAll(t, file, dir); got != c.Stats() {
		t.Errorf("reader: got %+v, the checker says %+v", got, c.Stats())
	}
	out, err := exec.CommandContext(t.Context(), s.backup, "--no-defaults", "--prepare", "--target-dir="+dir).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("completed OK!")) {
		t.Errorf("prepare: %v\n%s", err, out)
	}
}

// extractAll extracts a stream into a new directory.
func extractAll(t *testing.T, file, dir string) xbstream.Stats {
	t.Helper()
	src, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	x := extractor{root: root, open: map[string]*os.File{}}
	r := xbstream.NewReader(bufio.NewReader(src))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return r.Stats()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := x.apply(h, r); err != nil {
			t.Fatalf("%v %q: %v", h.Type, h.Path, err)
		}
	}
}

// An extractor is the shortest thing that turns a stream into files. It trusts the Reader with the rules.
type extractor struct {
	root *os.Root
	open map[string]*os.File
}

func (x *extractor) apply(h *xbstream.Header, payload io.Reader) error {
	switch h.Type {
	case xbstream.TypeRename:
		if err := x.root.MkdirAll(path.Dir(h.NewPath), 0o700); err != nil {
			return err
		}
		return ignoreMissing(x.root.Rename(h.Path, h.NewPath))
	case xbstream.TypeRemove:
		return x.remove(h.Path)
	}
	f, err := x.file(h.Path)
	if err != nil {
		return err
	}
	switch h.Type {
	case xbstream.TypeSeek:
		_, err = f.Seek(h.Offset, io.SeekStart)
	case xbstream.TypePayload:
		_, err = io.Copy(f, payload)
	case xbstream.TypeEnd:
		delete(x.open, h.Path)
		err = f.Close()
	}
	return err
}

func (x *extractor) file(name string) (*os.File, error) {
	if f := x.open[name]; f != nil {
		return f, nil
	}
	if err := x.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return nil, err
	}
	f, err := x.root.Create(name)
	if err == nil {
		x.open[name] = f
	}
	return f, err
}

func (x *extractor) remove(name string) error {
	prefix, all := strings.CutSuffix(name, "*")
	if !all {
		return x.root.RemoveAll(name)
	}
	entries, err := fs.ReadDir(x.root.FS(), path.Dir(prefix))
	if err != nil {
		return ignoreMissing(err)
	}
	for _, e := range entries {
		if file := path.Join(path.Dir(prefix), e.Name()); strings.HasPrefix(file, prefix) {
			err = errors.Join(err, x.root.RemoveAll(file))
		}
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
