// Package server looks at a running MariaDB server: what is true of it ([Conn.Facts]), and whether a backup of it can
// succeed from here ([Check]). It is the only package that connects to a server that is not our own, and it changes
// nothing there.
package server

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/internal/optionfile"
)

var (
	// ErrUnreachable is wrapped by the error of [Connect] when nothing answers at the server's address.
	ErrUnreachable = errors.New("no server answers")
	// ErrAccessDenied is wrapped by the error of [Connect] when the server does not let the user in.
	ErrAccessDenied = errors.New("the server refuses this user")
)

// clientGroups are the groups of option files from which the tool takes how to connect.
var clientGroups = []string{"client", "client-server", "client-mariadb", "xtrabackup", "mariabackup", "mariadb-backup"}

// sockets are where servers listen if nobody says otherwise: Debian, Red Hat, built from source.
var sockets = []string{"/run/mysqld/mysqld.sock", "/var/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock"}

// Conn is a connection to a MariaDB server. Its methods may be called from several goroutines. No question waits
// longer than the timeout.
type Conn struct {
	options mariadb.ConnectOptions // filled in
	network string
	address string
	db      *sql.DB
}

// Connect connects to the server that a backup with the same options would be taken of. The caller must Close it. The
// error wraps [ErrUnreachable] or [ErrAccessDenied] where that is the reason.
func Connect(ctx context.Context, o mariadb.ConnectOptions) (*Conn, error) {
	if o.DefaultsFile != "" {
		if _, err := os.Stat(o.DefaultsFile); err != nil {
			return nil, &mariadb.UsageError{Option: "--defaults-file", Reason: err.Error(), Hint: "does the file exist, and may you read it?", Err: err}
		}
	}
	s := &Conn{options: fillIn(ctx, o)}
	s.network, s.address = endpoint(&s.options)
	if err := s.open(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	if err := s.db.PingContext(ctx); err != nil {
		return nil, errors.Join(s.explain(err), s.db.Close())
	}
	return s, nil
}

// fillIn takes from the option files what o leaves out, then the defaults.
func fillIn(ctx context.Context, o mariadb.ConnectOptions) mariadb.ConnectOptions {
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	given := o
	for _, option := range optionfile.Options(ctx, o.DefaultsFile, clientGroups...) {
		name, value, _ := strings.Cut(strings.TrimPrefix(option, "--"), "=")
		switch optionfile.Name(name) { // the last one wins, but what was given wins over all
		case "user":
			o.User = prefer(given.User, value)
		case "password":
			o.Password = prefer(given.Password, value)
		case "host":
			o.Host = prefer(given.Host, value)
		case "socket":
			o.Socket = prefer(given.Socket, value)
		case "port":
			if port, err := strconv.Atoi(value); err == nil && given.Port == 0 {
				o.Port = port
			}
		}
	}
	if o.User == "" {
		if me, err := user.Current(); err == nil {
			o.User = me.Username
		}
	}
	if o.Socket == "" && isLocal(o.Host) {
		o.Socket = findSocket(ctx, o)
	}
	return o
}

// prefer returns the first string that is not empty.
func prefer(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// isLocal tells whether clients take this host to mean the socket.
func isLocal(host string) bool { return host == "" || host == "localhost" }

// findSocket looks at the server's own options, then at the usual places.
func findSocket(ctx context.Context, o mariadb.ConnectOptions) string {
	found := ""
	for _, option := range optionfile.Options(ctx, o.DefaultsFile, "mysqld", "server", "mariadb", "mariadbd") {
		if value, ok := strings.CutPrefix(option, "--socket="); ok {
			found = value
		}
	}
	if found != "" {
		return found
	}
	for _, path := range sockets {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			return path
		}
	}
	return sockets[0]
}

// endpoint returns network and address as net.Dial takes them.
func endpoint(o *mariadb.ConnectOptions) (network, address string) {
	if isLocal(o.Host) {
		return "unix", o.Socket
	}
	port := o.Port
	if port == 0 {
		port = 3306
	}
	return "tcp", net.JoinHostPort(o.Host, strconv.Itoa(port))
}

func (s *Conn) open() (err error) {
	if s.db, err = s.pool(s.options.Timeout); err == nil {
		s.db.SetMaxOpenConns(1)
	}
	return err
}

// pool returns a handle whose connections give up on an answer after the given time; 0 is never.
func (s *Conn) pool(patience time.Duration) (*sql.DB, error) {
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User, config.Passwd = s.network, s.address, s.options.User, s.options.Password
	config.Timeout, config.ReadTimeout, config.WriteTimeout = s.options.Timeout, patience, s.options.Timeout
	config.Logger = &mysql.NopLogger{}
	if s.network == "tcp" {
		config.TLSConfig = "preferred"
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.address, err)
	}
	return sql.OpenDB(connector), nil
}

// explain puts a failed connection into our terms.
func (s *Conn) explain(err error) error {
	var refusal *mysql.MySQLError
	var network net.Error
	var op *net.OpError
	switch {
	case errors.As(err, &refusal) && (refusal.Number == 1045 || refusal.Number == 1044 || refusal.Number == 1698 || refusal.Number == 1130):
		return fmt.Errorf("connect to %s as %q: %w: %w", s.address, s.options.User, ErrAccessDenied, err)
	case errors.As(err, &op), errors.As(err, &network), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrNotExist),
		errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, driver.ErrBadConn):
		return fmt.Errorf("connect to %s: %w: %w", s.address, ErrUnreachable, err)
	}
	return fmt.Errorf("connect to %s: %w", s.address, err)
}

// Options returns the options given to Connect, filled in: with them the tool reaches the same server even where its
// own built-in socket is another one.
func (s *Conn) Options() mariadb.ConnectOptions { return s.options }

// Close ends the connection. It may be called again.
func (s *Conn) Close() error { return s.db.Close() }

// pairs runs a query with two columns and returns them as a map. Names are in lower case.
func (s *Conn) pairs(ctx context.Context, query string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	rows, err := s.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	m := make(map[string]string)
	for rows.Next() {
		var name string
		var value sql.NullString
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		m[strings.ToLower(name)] = value.String
	}
	return m, rows.Err()
}

// records runs a query and returns each row as a map from column to value. NULL is left out.
func (s *Conn) records(ctx context.Context, query string) ([]map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	rows, err := s.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var all []map[string]string
	for rows.Next() {
		values, into := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		m := make(map[string]string, len(names))
		for i, v := range values {
			if v.Valid {
				m[names[i]] = v.String
			}
		}
		all = append(all, m)
	}
	return all, rows.Err()
}
