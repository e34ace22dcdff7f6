package gendata

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Options say what Load puts into a server. Sizes are those of the tablespaces, in bytes, and only about right; 0
// leaves that kind out.
type Options struct {
	Sysbench int64
	TPCC     int64
	// Special adds a few small tables of every sort that a backup treats in its own way: engines other than InnoDB,
	// compressed and partitioned tables, odd names, triggers, views, a sequence.
	Special bool
	Seed    uint64
	// OnTable, if set, is told each table when it is full. It is never called twice at a time.
	OnTable func(name string, rows int)
}

// loaders is how many tables are filled at a time; more gain nothing where server and generator share the cores.
const loaders = 2

// Load makes the databases, tables and rows that o asks for. db must be a server on this machine that may read files
// from the temporary directory, with the rights of root and no such databases yet. The first error ends it and leaves
// what is there.
func Load(ctx context.Context, db *sql.DB, o Options) error {
	if o.Special {
		if err := loadSpecial(ctx, db, o.OnTable); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "gendata-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil { // the server may run as another user
		return err
	}
	l := &loader{db: db, dir: dir, options: o, words: newWords()}
	if err := l.databases(ctx); err != nil {
		return err
	}
	return l.fillAll(ctx)
}

// loader fills tables.
type loader struct {
	db      *sql.DB
	dir     string // for the pipes
	options Options
	words   *words

	mu   sync.Mutex // guards errs and calls of OnTable
	errs []error
}

func (l *loader) tables() []table {
	var all []table
	if l.options.TPCC > 0 {
		all = append(all, tpccTables(l.options.TPCC)...)
	}
	if l.options.Sysbench > 0 {
		all = append(all, sysbenchTables(l.options.Sysbench)...)
	}
	return all
}

func (l *loader) databases(ctx context.Context) error {
	made := map[string]bool{}
	for _, t := range l.tables() {
		if made[t.database] {
			continue
		}
		made[t.database] = true
		if _, err := l.db.ExecContext(ctx, "CREATE DATABASE "+t.database); err != nil {
			return fmt.Errorf("create database %q: %w", t.database, err)
		}
	}
	return nil
}

// fillAll fills the tables, a few at a time, and returns when all are full or one has failed.
func (l *loader) fillAll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work := make(chan table)
	var group sync.WaitGroup
	for range loaders {
		group.Go(func() {
			for t := range work {
				if err := l.fill(ctx, t); err != nil {
					cancel()
					l.report(func() { l.errs = append(l.errs, fmt.Errorf("fill table %q: %w", t.database+"."+t.name, err)) })
				}
			}
		})
	}
	for _, t := range l.tables() {
		work <- t
	}
	close(work)
	group.Wait()
	if len(l.errs) > 0 {
		return l.errs[0] // the others follow from the cancelled context
	}
	return nil
}

func (l *loader) report(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// fill makes one table and pours its rows into it through a named pipe: the fastest way into a server that needs
// neither a file of that size nor a driver that knows LOCAL.
func (l *loader) fill(ctx context.Context, t table) error {
	name := t.database + "." + t.name
	conn, err := l.unlogged(ctx)
	if err != nil {
		return err
	}
	defer logged(conn)
	if _, err := conn.ExecContext(ctx, "CREATE TABLE "+name+" "+t.create); err != nil {
		return err
	}
	pipe := filepath.Join(l.dir, t.name)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		return &os.PathError{Op: "mkfifo", Path: pipe, Err: err}
	}
	defer os.Remove(pipe)
	if err := os.Chmod(pipe, 0o644); err != nil { // the server refuses files that not everyone may read
		return err
	}
	written := make(chan error, 1)
	go func() { written <- l.pour(pipe, t) }()
	// All text is ASCII: "binary" spares the server a look at every character.
	_, err = conn.ExecContext(ctx, "LOAD DATA INFILE '"+pipe+"' INTO TABLE "+name+" CHARACTER SET binary")
	release(pipe)
	if writeErr := <-written; err == nil {
		err = writeErr
	}
	if err == nil && l.options.OnTable != nil {
		l.report(func() { l.options.OnTable(name, t.rows) })
	}
	return err
}

// unlogged returns a connection that leaves the binary log alone: it would hold all the data once more. Hand it back with
// logged.
func (l *loader) unlogged(ctx context.Context) (*sql.Conn, error) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "SET SESSION sql_log_bin = 0"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// logged ends the session of a connection instead of giving it back to the pool with its setting changed.
func logged(conn *sql.Conn) {
	conn.Raw(func(any) error { return driver.ErrBadConn })
	conn.Close()
}

// pour writes the rows of t into the pipe.
func (l *loader) pour(pipe string, t table) error {
	f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	const batch = 256 << 10
	e := &row{w: l.words, buf: make([]byte, 0, batch+4<<10)}
	for i := 0; i < t.rows && err == nil; i++ {
		t.appendRow(e, l.options.Seed, i)
		if len(e.buf) >= batch || i == t.rows-1 {
			_, err = f.Write(e.buf)
			e.buf = e.buf[:0]
		}
	}
	return errors.Join(err, f.Close())
}

// release frees a writer that still waits in open for the server to come: it looks as if a reader came and left.
func release(pipe string) {
	f, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		f.Close()
	}
}

// exec runs statements in order.
func exec(ctx context.Context, db *sql.DB, statements []string) error {
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			first, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
			return fmt.Errorf("%s: %w", first, err)
		}
	}
	return nil
}
