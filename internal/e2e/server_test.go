package e2e_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/internal/gendata"
	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
)

// source is the server that most tests back up. It holds tables of every kind and writes a binary log. Tests may add
// databases to it, but leave alone what is there.
var source sharedServer

type sharedServer struct {
	once    sync.Once
	scratch *scratch.Server
	err     error
}

// server is a running server of a test.
type server struct {
	*scratch.Server
	t *testing.T
}

// fast are options for servers whose data may be lost in a crash of the machine.
var fast = []string{"--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--innodb-doublewrite=0"}

// withBinlog are the options of a server whose position can be compared.
var withBinlog = []string{"--log-bin=bin", "--server-id=7", "--gtid-domain-id=3", "--binlog-format=ROW"}

// get returns the shared server, which the first caller starts.
func (s *sharedServer) get(t *testing.T) *server {
	t.Helper()
	needAll(t, "mariadbd", "mariadb-install-db", "mariadb-backup")
	s.once.Do(func() { s.scratch, s.err = startSource(t.Context()) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return &server{s.scratch, t}
}

func (s *sharedServer) close() error {
	if s.scratch == nil {
		return nil
	}
	return s.scratch.Kill()
}

func needAll(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		testenv.Need(t, p)
	}
}

// pristine makes, once, a data directory that was just installed; servers get a copy, which is faster.
var pristine = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(suite.dir, "pristine")
	return dir, (&scratch.Server{Dir: dir, Args: fast}).Init(context.Background())
})

// newScratch returns a server, not yet started, on a new data directory.
func newScratch(dir string, args ...string) (*scratch.Server, error) {
	from, err := pristine()
	if err != nil {
		return nil, err
	}
	if out, err := exec.Command("cp", "-a", from, dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy data directory: %w: %s", err, out)
	}
	return &scratch.Server{Dir: dir, Args: append(append([]string{}, fast...), args...)}, nil
}

func startSource(ctx context.Context) (*scratch.Server, error) {
	s, err := newScratch(filepath.Join(suite.dir, "source"), withBinlog...)
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	o := gendata.Options{Sysbench: 6 << 20, TPCC: 6 << 20, Special: true, Seed: 42}
	if err := gendata.Load(ctx, s.DB(), o); err != nil {
		return s, err
	}
	for _, statement := range oddities() {
		if _, err := s.DB().ExecContext(ctx, statement); err != nil {
			return s, fmt.Errorf("%s: %w", statement, err)
		}
	}
	return s, nil
}

// oddities are things that the generator's special tables leave out.
func oddities() []string {
	return []string{
		"CREATE DATABASE odd",
		`CREATE TABLE odd.generated (id INT PRIMARY KEY, a VARCHAR(40), b INT AS (id * 3 + 1) STORED,
			c VARCHAR(50) AS (CONCAT(a, '-', id)) VIRTUAL, KEY (c)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
		"INSERT INTO odd.generated (id, a) SELECT seq, MD5(seq) FROM odd.seq_1_to_2000",
		"CREATE TABLE odd.lists (id INT, part INT, v TEXT) ENGINE=InnoDB PARTITION BY LIST (part) " +
			"(PARTITION `süd` VALUES IN (1), PARTITION nord VALUES IN (2, 3))",
		"INSERT INTO odd.lists SELECT seq, seq % 3 + 1, REPEAT(MD5(seq), 10) FROM odd.seq_1_to_3000",
		"CREATE TABLE odd.`Größe: a/b\\c.d?*<>|\"'#%` (id INT PRIMARY KEY, v BLOB) ENGINE=Aria TRANSACTIONAL=1",
		"INSERT INTO odd.`Größe: a/b\\c.d?*<>|\"'#%` SELECT seq, REPEAT(CHAR(seq), 50) FROM odd.seq_1_to_200",
		"CREATE TABLE odd.`日本語 テーブル` (id INT PRIMARY KEY, v TEXT) ENGINE=MyISAM DEFAULT CHARSET=utf8mb4",
		"INSERT INTO odd.`日本語 テーブル` VALUES (1, 'かな'), (2, '漢字')",
		"CREATE TABLE odd.`we``ird` (g GEOMETRY NOT NULL, SPATIAL KEY (g)) ENGINE=InnoDB",
		"INSERT INTO odd.`we``ird` SELECT POINT(seq, seq * 2) FROM odd.seq_1_to_500",
		"CREATE TABLE odd.parts_aria (id INT, v INT) ENGINE=Aria PARTITION BY HASH (id) PARTITIONS 3",
		"INSERT INTO odd.parts_aria SELECT seq, seq FROM odd.seq_1_to_900",
		"CREATE TABLE odd.parts_myisam (id INT, v INT) ENGINE=MyISAM PARTITION BY RANGE (id) " +
			"(PARTITION low VALUES LESS THAN (100), PARTITION rest VALUES LESS THAN MAXVALUE)",
		"INSERT INTO odd.parts_myisam SELECT seq, seq FROM odd.seq_1_to_900",
		"CREATE DATABASE `Ünïcode.db #5`",
		"CREATE TABLE `Ünïcode.db #5`.t (id INT PRIMARY KEY) ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4",
		"INSERT INTO `Ünïcode.db #5`.t SELECT seq FROM odd.seq_1_to_500",
		"CREATE FUNCTION odd.twice(n INT) RETURNS INT DETERMINISTIC RETURN n * 2",
		"CREATE EVENT odd.nightly ON SCHEDULE EVERY 1 DAY DO DELETE FROM odd.lists WHERE id < 0",
		"CREATE USER e2e_reader@localhost IDENTIFIED BY 'readonly'",
	}
}

// startOn starts a server on a restored directory; it is stopped when the test ends.
func startOn(t *testing.T, dir string, args ...string) *server {
	t.Helper()
	s := &scratch.Server{Dir: dir, Args: append(append([]string{}, fast...), args...)}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Kill(); err != nil { // nobody needs it any more, and this is quicker
			t.Error(err)
		}
	})
	return &server{s, t}
}

// startNew starts a server on a new data directory.
func startNew(t *testing.T, args ...string) *server {
	t.Helper()
	needAll(t, "mariadbd", "mariadb-install-db", "mariadb-backup")
	s, err := newScratch(filepath.Join(shortDir(t), "data"), args...)
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, s.Dir, args...)
}

// shortDir is like t.TempDir, without the test's name in it.
func shortDir(t *testing.T) string { return newDir(t, suite.dir) }

// diskDir is a directory on a disk, if there is one.
func diskDir(t *testing.T) string { return newDir(t, "/var/tmp") }

func newDir(t *testing.T, parent string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("rm", "-rf", dir).CombinedOutput(); err != nil { // there may be 200,000 files in it
			t.Errorf("%v: %s", err, out)
		}
	})
	return dir
}

func (s *server) exec(statements ...string) {
	s.t.Helper()
	for _, statement := range statements {
		if _, err := s.DB().ExecContext(contextFor(s.t, patience), statement); err != nil {
			s.t.Fatalf("%s: %v", statement, err)
		}
	}
}

func (s *server) text(query string) string {
	s.t.Helper()
	var text sql.NullString
	if err := s.DB().QueryRowContext(contextFor(s.t, patience), query).Scan(&text); err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return text.String
}

// flags are how mbwrap reaches the server.
func (s *server) flags() []string {
	return []string{"--server", "e2e", "--user", "root", "--socket", s.Socket()}
}

// backup is the command line of a backup of the server into repo.
func (s *server) backup(repo string, more ...string) []string {
	return append(append([]string{"backup", "--repo", repo}, s.flags()...), more...)
}

// account is everything that must be the same on two servers: the data of every table, and every definition.
func (s *server) account() map[string]string {
	s.t.Helper()
	sums, err := s.Checksums(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]string{}
	for name, sum := range sums {
		all["table "+name] = fmt.Sprint(sum)
	}
	// CHECKSUM TABLE of a generated column is not stable in the server.
	delete(all, "table odd.generated")
	for _, query := range definitions() {
		s.collect(all, query)
	}
	return all
}

// definitions are queries for a name and a value each.
func definitions() []string {
	const own = " NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"
	return []string{
		"SELECT CONCAT('database ', schema_name), default_collation_name FROM information_schema.schemata WHERE schema_name" + own,
		"SELECT CONCAT('view ', table_schema, '.', table_name), view_definition FROM information_schema.views WHERE table_schema" + own,
		"SELECT CONCAT('trigger ', trigger_schema, '.', trigger_name), action_statement FROM information_schema.triggers WHERE trigger_schema" + own,
		"SELECT CONCAT('routine ', routine_schema, '.', routine_name), routine_definition FROM information_schema.routines WHERE routine_schema" + own,
		"SELECT CONCAT('event ', event_schema, '.', event_name), event_definition FROM information_schema.events",
		"SELECT CONCAT('key to ', constraint_schema, '.', constraint_name), referenced_table_name FROM information_schema.referential_constraints",
		`SELECT CONCAT('definition ', table_schema, '.', table_name), MD5(GROUP_CONCAT(column_name, column_type, IFNULL(generation_expression, '')
			ORDER BY ordinal_position)) FROM information_schema.columns WHERE table_schema` + own + " GROUP BY table_schema, table_name",
		"SELECT CONCAT('engine ', table_schema, '.', table_name), CONCAT_WS(' ', table_type, engine, create_options) " +
			"FROM information_schema.tables WHERE table_schema" + own,
		"SELECT CONCAT('user ', user, '@', host), authentication_string FROM mysql.user",
	}
}

// collect adds the rows of query.
func (s *server) collect(all map[string]string, query string) {
	s.t.Helper()
	rows, err := s.DB().QueryContext(s.t.Context(), query)
	if err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var value sql.NullString
		if err := rows.Scan(&name, &value); err != nil {
			s.t.Fatal(err)
		}
		all[name] = value.String
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
}

// unlocked fails the test unless definitions can be changed and rows be committed at once.
func (s *server) unlocked() {
	s.t.Helper()
	ctx := contextFor(s.t, 10*time.Second)
	for _, statement := range []string{
		"CREATE TABLE odd.probe (a INT) ENGINE=Aria", "INSERT INTO odd.probe VALUES (1)",
		"RENAME TABLE odd.probe TO odd.probe_2", "DROP TABLE odd.probe_2",
		"CREATE TABLE odd.probe (a INT) ENGINE=InnoDB", "INSERT INTO odd.probe VALUES (1)", "DROP TABLE odd.probe",
	} {
		if _, err := s.DB().ExecContext(ctx, statement); err != nil {
			s.t.Fatalf("%s: %v", statement, err)
		}
	}
}
