package e2e_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/xbstream"
)

// engine is a kind of table that the storm works on.
type engine struct{ prefix, spec string }

// engines of the storm; the first one is the only one whose changes the tool finds in the redo log.
func engines() []engine {
	return []engine{{"i", "ENGINE=InnoDB"}, {"m", "ENGINE=MyISAM"}, {"a", "ENGINE=Aria"}, {"n", "ENGINE=Aria TRANSACTIONAL=0"}}
}

// perKind is how many tables there are of each kind and purpose; half of them change in each hold.
const perKind = 4

// beforeStorm makes tables: to rename (r), drop (d), truncate (t), create anew (c), alter (l), swap (s, w), write to (u),
// leave alone (k).
func beforeStorm() []string {
	all := []string{
		"CREATE DATABASE gone", "CREATE DATABASE storm", "CREATE DATABASE quiet",
		"CREATE TABLE quiet.i ENGINE=InnoDB SELECT seq AS id, REPEAT(MD5(seq), 20) AS v FROM quiet.seq_1_to_8000",
		"CREATE TABLE quiet.m ENGINE=MyISAM SELECT seq AS id, MD5(seq) AS v FROM quiet.seq_1_to_2000",
		"CREATE TABLE storm.big ENGINE=MyISAM SELECT seq AS id, REPEAT(MD5(seq), 25) AS v FROM storm.seq_1_to_16000",
		"CREATE TABLE storm.log ENGINE=Aria SELECT seq AS id, REPEAT(MD5(seq), 25) AS v FROM storm.seq_1_to_12000",
	}
	for _, e := range engines() {
		for _, purpose := range "rdtclswuk" {
			for i := range perKind {
				all = append(all, fmt.Sprintf("CREATE TABLE storm.%s%c%d %s SELECT seq AS id, 1 AS v FROM storm.seq_1_to_300", e.prefix, purpose, i, e.spec))
			}
		}
		all = append(all, fmt.Sprintf("CREATE TABLE gone.%s (id INT) %s", e.prefix, e.spec),
			fmt.Sprintf("CREATE TABLE storm.%sp (id INT) %s PARTITION BY HASH (id) PARTITIONS 3", e.prefix, e.spec),
			fmt.Sprintf("CREATE TABLE storm.%sq (id INT) %s PARTITION BY HASH (id) PARTITIONS 3", e.prefix, e.spec))
	}
	return append(all, "FLUSH TABLES")
}

// storm changes the first or the second half of the tables of one kind. Two things are left out, which mariadb-backup
// 10.11.19 does not survive: of a table (other than InnoDB's) that is created and renamed in the same backup it sends
// the definition only, and of a database that is created and dropped it reports an error.
func storm(e engine, half int) []string {
	var all []string
	for i := half * perKind / 2; i < (half+1)*perKind/2; i++ {
		for _, statement := range []string{
			"RENAME TABLE storm.%[1]sr%[2]d TO storm.%[1]sx%[2]d",
			"DROP TABLE storm.%[1]sd%[2]d",
			"TRUNCATE TABLE storm.%[1]st%[2]d",
			"CREATE OR REPLACE TABLE storm.%[1]sc%[2]d %[3]s SELECT seq AS id, 2 AS b, 3 AS c FROM storm.seq_1_to_50",
			"RENAME TABLE storm.%[1]ss%[2]d TO storm.tmp, storm.%[1]sw%[2]d TO storm.%[1]ss%[2]d, storm.tmp TO storm.%[1]sw%[2]d",
			"UPDATE storm.%[1]su%[2]d SET v = v + id",
			"CREATE TABLE storm.%[1]sy%[2]d %[3]s SELECT seq AS id FROM storm.seq_1_to_20",
			"CREATE TABLE storm.%[1]sz%[2]d %[3]s SELECT seq AS id FROM storm.seq_1_to_20",
			"DROP TABLE storm.%[1]sz%[2]d",
			"CREATE DATABASE new%[1]s%[2]d",
			"CREATE TABLE new%[1]s%[2]d.t %[3]s SELECT seq AS id FROM storm.seq_1_to_20",
			"ALTER DATABASE new%[1]s%[2]d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
		} {
			// Not every statement names the engine.
			all = append(all, strings.TrimSuffix(fmt.Sprintf(statement+"%.0[3]s", e.prefix, i, e.spec), "%!s(MISSING)"))
		}
	}
	return all
}

// alters are what only the first stage of a backup allows.
func alters() []string {
	all := []string{"DROP DATABASE gone", "UPDATE storm.log SET v = REPEAT(MD5(id + 1), 25)"}
	for _, e := range engines() {
		for i := range perKind {
			all = append(all, fmt.Sprintf("ALTER TABLE storm.%sl%d ADD COLUMN z INT NOT NULL DEFAULT 7, ALGORITHM=COPY", e.prefix, i))
		}
		all = append(all, fmt.Sprintf("DROP TABLE storm.%sp", e.prefix), fmt.Sprintf("RENAME TABLE storm.%[1]sq TO storm.%[1]sq2", e.prefix))
	}
	return all
}

// gate stands between the tool and mbwrap, and holds the stream where the test wants to.
type gate struct {
	t       *testing.T
	tool    string // what mbwrap is to run
	in, out string // named pipes
}

// newGate makes a mariadb-backup whose stream goes through the test.
func newGate(t *testing.T) *gate {
	t.Helper()
	dir := t.TempDir()
	g := &gate{t: t, tool: filepath.Join(dir, "mariadb-backup"), in: filepath.Join(dir, "in"), out: filepath.Join(dir, "out")}
	for _, pipe := range []string{g.in, g.out} {
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf(`#!/bin/bash
case " $* " in
*" --backup "*) %[1]s "$@" >%[2]s & tool=$!; cat %[3]s; wait $tool ;;
*) exec %[1]s "$@" ;;
esac
`, testenv.Need(t, "mariadb-backup"), g.in, g.out)
	if err := os.WriteFile(g.tool, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return g
}

// pass lets the stream through, and calls each of holds when a file of that name has been seen.
func (g *gate) pass(holds map[string]func()) error {
	in, err := os.Open(g.in)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(g.out, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer out.Close()
	seen := &census{types: map[string]int{}, paths: map[string]bool{}}
	c := xbstream.NewChecker(xbstream.Options{Handler: seen})
	buf := make([]byte, 64<<10)
	for {
		n, err := in.Read(buf)
		if _, werr := c.Write(buf[:n]); werr != nil {
			return werr
		}
		for path, do := range holds {
			if seen.paths[path] {
				delete(holds, path)
				do()
			}
		}
		if _, werr := out.Write(buf[:n]); werr != nil {
			return werr
		}
		if err == io.EOF {
			return c.Close()
		}
		if err != nil {
			return err
		}
	}
}

// census counts the chunks of a stream and remembers its files.
type census struct {
	types map[string]int
	paths map[string]bool
}

func (c *census) Chunk(h *xbstream.Chunk) error {
	c.types[h.Type.String()]++
	if h.Flags&xbstream.FlagRewrite != 0 {
		c.types["rewrite"]++
	}
	c.paths[h.Path] = true
	return nil
}

func (c *census) Data([]byte) error { return nil }

// TestDefinitionsChangeMeanwhile backs up a server whose tables are renamed, dropped, emptied, replaced, altered and
// written to while the tool copies them: once while it is held in its first stage, and once, as far as it is allowed,
// while it copies MyISAM tables. What is restored has every table of InnoDB as it was at the end, and every other one
// that was left alone. Of the others the tool itself loses some, and says nothing: they are counted only.
func TestDefinitionsChangeMeanwhile(t *testing.T) {
	g := newGate(t)
	s := startNew(t, withBinlog...)
	s.exec(beforeStorm()...)
	var want map[string]string
	passed := make(chan error, 1)
	go func() {
		passed <- g.pass(map[string]func(){
			"aria_log_control": func() {
				all := alters()
				for _, e := range engines() {
					all = append(all, storm(e, 0)...)
				}
				if done := s.change(all); done != len(all) {
					t.Errorf("in the first stage %d of %d statements were allowed, want all", done, len(all))
				}
			},
			"storm/big.MYD": func() {
				done := 0
				for _, e := range engines()[1:] {
					done += s.change(storm(e, 1))
				}
				t.Logf("while MyISAM tables are copied %d statements were allowed", done)
				want = s.sums()
			},
		})
	}()
	repo := filepath.Join(t.TempDir(), "repo")
	o := suite.cgo.run(t, s.backup(repo, "--tool", g.tool, "--", "--parallel=3")...)
	if err := <-passed; err != nil {
		t.Fatal(err)
	}
	// The tool loses the data of some tables that were renamed or made anew; mbwrap must say so, and of no others.
	changed := regexp.MustCompile(`^storm\.[a-z]+[xcswyt]\d+$`)
	bare := regexp.MustCompile(`table "(storm\.\w+)" has a definition`).FindAllStringSubmatch(o.stderr, -1)
	if want := map[bool]int{false: 0, true: 3}[len(bare) > 0]; o.code != want || len(bare) == 0 && o.stderr != "" {
		t.Fatalf("got exit code %d and %q, want %d", o.code, o.stderr, want)
	}
	for _, table := range bare {
		if !changed.MatchString(table[1]) {
			t.Errorf("table %s is called lost, but was left alone", table[1])
		}
	}
	types := censusOf(t, repo)
	t.Logf("chunks: %v", types)
	for _, typ := range []string{"payload", "end", "rename", "remove", "rewrite"} {
		if types[typ] == 0 {
			t.Errorf("no %s chunk in the stream", typ)
		}
	}
	suite.pure.must(t, "verify", "--level", "read", "--repo", repo)
	all := []map[string]string{}
	for _, reader := range builds() {
		target := filepath.Join(shortDir(t), "data")
		reader.must(t, "restore", "--repo", repo, "--server", "e2e", "--target-dir", target)
		all = append(all, startOn(t, target).sums())
		compareStorm(t, all[len(all)-1], want)
	}
	same(t, "the two builds' restores", all[0], all[1])
	if target, ok := byStock(t, repo); ok {
		same(t, "restored by mbwrap, and by mbstream", all[0], startOn(t, target).sums())
	}
}

// TestReplayGivenUp creates and drops a database while the tool copies. mariadb-backup 10.11.19 then gives up to send
// what else has changed, says so in passing, and claims success: such a backup must not be listed. A tool that copes must
// have sent everything.
func TestReplayGivenUp(t *testing.T) {
	g := newGate(t)
	s := startNew(t, withBinlog...)
	s.exec(beforeStorm()...)
	changes := []string{"CREATE DATABASE fleeting", "DROP DATABASE fleeting", "CREATE OR REPLACE TABLE quiet.n (a INT) ENGINE=Aria"}
	passed := make(chan error, 1)
	go func() {
		passed <- g.pass(map[string]func(){"aria_log_control": func() {
			if done := s.change(changes); done != len(changes) {
				t.Errorf("%d of %d statements were allowed, want all", done, len(changes))
			}
		}})
	}()
	repo := filepath.Join(t.TempDir(), "repo")
	o := suite.cgo.run(t, s.backup(repo, "--tool", g.tool)...)
	if err := <-passed; err != nil {
		t.Fatal(err)
	}
	if o.code == 0 {
		target := filepath.Join(shortDir(t), "data")
		suite.cgo.must(t, "restore", "--repo", repo, "--server", "e2e", "--target-dir", target)
		same(t, "restored server", startOn(t, target).sums(), s.sums())
		return
	}
	if o.code != 4 || !strings.Contains(o.stderr, "claims success") || !strings.Contains(o.stderr, "fleeting/db.opt") ||
		!strings.Contains(o.stderr, "made and dropped while the backup ran") {
		t.Errorf("got exit code %d, %q, want 4 and what the tool said", o.code, o.stderr)
	}
	nothingNew(t, repo, 0)
	s.exec("CREATE DATABASE odd") // where unlocked works
	s.unlocked()
}

// compareStorm compares what must be the same, and counts the rest.
func compareStorm(t *testing.T, got, want map[string]string) {
	t.Helper()
	var lost []string
	compared := 0
	for name, sum := range want {
		db, table, _ := strings.Cut(name, ".")
		innodb := strings.HasPrefix(table, "i") || strings.HasPrefix(db, "newi")
		switch {
		case innodb || db == "quiet" || table == "big" || len(table) == 3 && table[1] == 'k':
			compared++
			if got[name] != sum {
				t.Errorf("table %s: got %q, want %q", name, got[name], sum)
			}
		case got[name] != sum:
			lost = append(lost, name)
		}
	}
	if compared < 30 {
		t.Errorf("compared %d tables only", compared)
	}
	slices.Sort(lost)
	t.Logf("%d tables are as they must be; the tool lost or mixed up %d of the %d others: %q", compared, len(lost), len(want)-compared, lost)
}

// sums returns the checksum of every table, "" for one that the server can't read.
func (s *server) sums() map[string]string {
	all := map[string]string{}
	tables := map[string]string{}
	s.collect(tables, "SELECT CONCAT(table_schema, '.', table_name), engine FROM information_schema.tables WHERE table_type = 'BASE TABLE' "+
		"AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')")
	for name := range tables {
		s.collect(all, "CHECKSUM TABLE "+name+" EXTENDED")
	}
	return all
}

// change runs statements and returns how many were allowed; one that has to wait for the backup is left out, and so is
// one that fails because of that. It is not called on the test's own goroutine.
func (s *server) change(statements []string) int {
	conn, err := s.DB().Conn(s.t.Context())
	if err != nil {
		s.t.Error(err)
		return 0
	}
	defer conn.Close()
	done := 0
	for _, statement := range append([]string{"SET SESSION lock_wait_timeout = 1"}, statements...) {
		if _, err := conn.ExecContext(s.t.Context(), statement); err == nil {
			done++
		} else {
			s.t.Logf("%s: %v", statement, err)
		}
	}
	return done - 1
}

// censusOf counts the chunks of what cat gives.
func censusOf(t *testing.T, repo string) map[string]int {
	t.Helper()
	seen := &census{types: map[string]int{}, paths: map[string]bool{}}
	c := xbstream.NewChecker(xbstream.Options{Handler: seen})
	suite.pure.mustCall(t, call{stdout: c}, "cat", "latest", "--repo", repo, "--server", "e2e")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return seen.types
}

// byStock restores with the stock extractor. It refuses some good streams, and does not always say so: then ok is false.
func byStock(t *testing.T, repo string) (target string, ok bool) {
	t.Helper()
	target = shortDir(t)
	cmd := exec.Command(testenv.Need(t, "mbstream"), "-x", "-C", target)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := suite.cgo.start(t, call{stdout: in}, "cat", "latest", "--repo", repo, "--server", "e2e").wait()
	in.Close()
	err = cmd.Wait()
	_, unfinished := os.Stat(filepath.Join(target, "xtrabackup_info"))
	t.Logf("mbstream -x: %v, last file: %v, said %q; cat ended with %d", err, unfinished, said.String(), o.code)
	ok = err == nil && unfinished == nil
	how := suite.cgo.run(t, "howto", "latest", "--repo", repo, "--server", "e2e")
	if says := !strings.Contains(how.stdout, "mbstream can't extract"); how.code != 0 || says != ok {
		t.Errorf("mbstream extracts this: %v; howto says: %v (exit code %d)\n%s%s", ok, says, how.code, how.stderr, how.stdout)
	}
	if !ok {
		return "", false
	}
	prepare := exec.CommandContext(t.Context(), testenv.Need(t, "mariadb-backup"), "--prepare", "--target-dir="+target)
	if out, err := prepare.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return target, true
}
