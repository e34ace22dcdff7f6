package scratch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/mariadb/internal/process"
)

// Server is a throwaway MariaDB server on a data directory of its own, reachable only through a socket in a private
// directory. It reads no option file, listens on no network, starts no replication and no events. It dies with this
// process. Set the fields, then call Init for a new data directory (or leave that out for one that is there already,
// such as a restored backup), Start, and Stop. It belongs to one goroutine; the handle from DB may be shared.
type Server struct {
	Dir  string   // the data directory
	Args []string // more server options, such as "--log-bin=bin"; they win over ours
	// SkipGrants starts without privilege tables: anyone who can reach the socket may do anything. For restored data
	// whose passwords are unknown.
	SkipGrants bool
	// Restored says that the data are another server's, such as a restored backup: nothing in them may act, and nothing
	// outside Dir may be touched. See the package comment for what that means. It implies SkipGrants.
	Restored   bool
	BufferPool int64         // bytes for InnoDB's buffer pool; 0 is 32 MiB
	Timeout    time.Duration // how long the server may take until it answers; 0 is one minute

	private string // socket, log, temporary files
	server  *process.Child
	db      *sql.DB
}

var (
	// ErrNoServer is wrapped by errors that say that mariadbd is not installed.
	ErrNoServer = errors.New("mariadbd is not installed")
	// ErrEnded is wrapped by the error of Start when the server ended by itself: it can't live on these data, or not with
	// these options. It is also wrapped by errors of other methods that found the server gone.
	ErrEnded = errors.New("the server ended")
	// ErrSilent is wrapped by the error of Start when the server did not answer in time.
	ErrSilent = errors.New("the server does not answer")
	// ErrIncomplete is wrapped by the error of Start when restored data lack what a server would make anew: it would start
	// well, and be empty.
	ErrIncomplete = errors.New("the data directory is incomplete")
	// ErrOutside is wrapped by the error of Start when restored data hold links to something outside the directory.
	ErrOutside = errors.New("the data directory leads outside")

	errNotRunning = errors.New("scratch server does not run")
)

const (
	// stopGrace is how long the server gets to shut down in good order.
	stopGrace = 60 * time.Second
	// dyingGrace is how long a server that has lost its connections gets to end: it prints its stack before.
	dyingGrace = 30 * time.Second
	// pollInterval is the time between two looks whether the server answers.
	pollInterval = 20 * time.Millisecond
)

// Init makes a new data directory with root reachable without a password. Dir must be absent or empty. Those of Args
// that begin with "--innodb" also go to the program that makes it, as page size and the like are fixed then.
func (s *Server) Init(ctx context.Context) error {
	installer, err := process.Find("mariadb-install-db", "mysql_install_db")
	if err != nil {
		return fmt.Errorf("mariadb-install-db: %w", err)
	}
	if err := s.makeDir(); err != nil {
		return err
	}
	owner, err := process.RunAs(s.Dir)
	if err != nil {
		return err
	}
	args := []string{"--no-defaults", "--datadir=" + s.Dir, "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--force", noSync}
	for _, arg := range s.Args {
		if strings.HasPrefix(arg, "--innodb") {
			args = append(args, arg)
		}
	}
	return runQuietly(ctx, installer, append(args, owner.Args()...))
}

// makeDir makes Dir absolute and sees that it is an empty directory.
func (s *Server) makeDir() error {
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		return err
	}
	s.Dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("data directory %q is not empty", dir)
	}
	return nil
}

// runQuietly runs a program to its end; if it fails, the error holds the end of what it said.
func runQuietly(ctx context.Context, path string, args []string) error {
	out, err := os.CreateTemp("", "mbwrap-")
	if err != nil {
		return err
	}
	defer out.Close()
	if err := os.Remove(out.Name()); err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = out, out
	c, err := process.Start(cmd, 0)
	if err != nil {
		return err
	}
	c.Release()
	stop := context.AfterFunc(ctx, func() { c.Signal(unix.SIGKILL) })
	<-c.Reaped
	if !stop() {
		return fmt.Errorf("%s: %w", filepath.Base(path), context.Cause(ctx))
	}
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %s: %s", filepath.Base(path), cmd.ProcessState, tail(out))
	}
	return nil
}

// Start starts the server and returns when it answers. When it does not, the error holds the end of its log, and
// nothing is left running. A Server that was stopped may be started again.
func (s *Server) Start(ctx context.Context) error {
	if s.server != nil {
		return errors.New("scratch server is running already")
	}
	program, err := process.Find("mariadbd", "mysqld")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return err
	}
	if s.Restored {
		if err := s.secure(); err != nil {
			return err
		}
	}
	if err := s.launch(program); err != nil {
		return errors.Join(err, s.clean())
	}
	if err := s.waitReady(ctx); err != nil {
		return errors.Join(err, s.Stop())
	}
	return nil
}

// launch makes the private directory and starts the program in it.
func (s *Server) launch(program string) error {
	owner, err := s.account()
	if err != nil {
		return err
	}
	if s.private, err = process.PrivateDir(owner); err != nil {
		return err
	}
	if err := s.makeFiles(owner); err != nil {
		return err
	}
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err := process.RaiseFileLimit(); err != nil {
		return err
	}
	cmd := exec.Command(program, s.arguments(owner)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = s.private, log, log, environment(cmd.Environ())
	if s.server, err = process.Start(cmd, 0); err != nil {
		return err
	}
	s.server.Release()
	return nil
}

// waitReady polls until a query is answered, the server ends, or time is up.
func (s *Server) waitReady(ctx context.Context) error {
	limit := s.Timeout
	if limit == 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	db, err := s.open()
	if err != nil {
		return err
	}
	s.db = db
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		var refused *mysql.MySQLError // it answers, if only to say no
		if errors.As(err, &refused) {
			return fmt.Errorf("scratch server on %q: %w", s.Dir, err)
		}
		select {
		case <-s.server.Exited:
			<-s.server.Reaped
			return fmt.Errorf("scratch server on %q: %w: %s: %s", s.Dir, ErrEnded, s.server.Cmd.ProcessState, s.logTail())
		case <-ctx.Done():
			return fmt.Errorf("scratch server on %q: %w: %w: %s", s.Dir, ErrSilent, context.Cause(ctx), s.logTail())
		case <-tick.C:
		}
	}
}

// open returns a handle on the server; it does not connect yet.
func (s *Server) open() (*sql.DB, error) {
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User = "unix", s.Socket(), "root"
	config.MultiStatements = true
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// DB returns the handle on the running server, as root; several statements in one Exec are allowed. Stop closes it. It
// is nil when the server does not run.
func (s *Server) DB() *sql.DB { return s.db }

// Socket returns the path of the server's socket, "" before Start.
func (s *Server) Socket() string {
	if s.private == "" {
		return ""
	}
	return filepath.Join(s.private, "s")
}

// PID returns the server's process number, 0 when it does not run.
func (s *Server) PID() int {
	if s.server == nil {
		return 0
	}
	return s.server.PID()
}

// Stop shuts the server down in good order, kills it if that takes more than a minute, and removes what Start made; the
// data directory stays. It may be called at any time, and again.
func (s *Server) Stop() error { return s.end(unix.SIGTERM) }

// Kill ends the server at once, as a crash would.
func (s *Server) Kill() error { return s.end(unix.SIGKILL) }

func (s *Server) end(sig unix.Signal) error {
	var errs []error
	if s.db != nil {
		_ = s.db.Close() // it complains of connections that a server has left when it ended by itself
		s.db = nil
	}
	if s.server != nil {
		err := s.server.Stop(sig, stopGrace)
		if err == nil {
			<-s.server.Reaped
		}
		errs = append(errs, err)
		s.server = nil
	}
	return errors.Join(append(errs, s.clean())...)
}

// clean removes the private directory.
func (s *Server) clean() error {
	if s.private == "" {
		return nil
	}
	dir := s.private
	s.private = ""
	return os.RemoveAll(dir)
}

// alive tells whether the server still runs. One that is about to end gets the time for it: connections break before.
func (s *Server) alive() bool {
	if s.server == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), dyingGrace)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case <-s.server.Exited:
			return false
		default:
		}
		if s.db.PingContext(ctx) == nil {
			return true
		}
		select {
		case <-s.server.Exited:
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
	return false
}

// explain adds to an error that the server has ended, if that is why.
func (s *Server) explain(ctx context.Context, err error) error {
	var refused *mysql.MySQLError
	if err == nil || ctx.Err() != nil || errors.As(err, &refused) || s.alive() {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrEnded, s.lastWords(), err)
}

// restart replaces a server that has ended, or does not answer any more.
func (s *Server) restart(ctx context.Context) error {
	if err := s.Kill(); err != nil {
		return err
	}
	return s.Start(ctx)
}
