package restore_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
	"github.com/mbwrap/mbwrap/restore"
	"github.com/mbwrap/mbwrap/xbstream"
)

// engines are the kinds of tables that a backup treats in its own way.
func engines() map[string]string {
	return map[string]string{
		"inno": "ENGINE=InnoDB", "zip": "ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8", "pagec": "ENGINE=InnoDB PAGE_COMPRESSED=1",
		"aria": "ENGINE=Aria TRANSACTIONAL=1", "aria0": "ENGINE=Aria TRANSACTIONAL=0", "isam": "ENGINE=MyISAM",
		"part": "ENGINE=InnoDB PARTITION BY HASH(id) PARTITIONS 3", "csv": "ENGINE=CSV",
	}
}

// realServer starts a server with tables of every kind: "keep.…" are left alone, "play.…" are for changes.
func realServer(t *testing.T) *scratch.Server {
	t.Helper()
	testenv.Need(t, "mariadbd")
	testenv.Need(t, "mariadb-backup")
	s := &scratch.Server{Dir: filepath.Join(t.TempDir(), "source")}
	if err := errors.Join(s.Init(t.Context()), s.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	run(t, s, "CREATE DATABASE keep; CREATE DATABASE play")
	for name, engine := range engines() {
		key := "PRIMARY KEY"
		if name == "csv" {
			key = ""
		}
		run(t, s, fmt.Sprintf(`CREATE TABLE keep.%s (id INT NOT NULL %s, a VARCHAR(200) NOT NULL, b INT NOT NULL) %s;
			INSERT INTO keep.%s SELECT seq, REPEAT(MD5(seq), 5), seq %% 1000 FROM mysql_seq.s`, name, key, engine, name))
	}
	run(t, s, "FLUSH TABLES keep.pagec FOR EXPORT; UNLOCK TABLES") // all its pages are on the disk, holes and all
	for i := range 12 {
		run(t, s, fmt.Sprintf("CREATE TABLE play.t%d (id INT NOT NULL, a VARCHAR(99)) ENGINE=%s; INSERT INTO play.t%d SELECT seq, 'x' FROM mysql_seq.s LIMIT 500",
			i, []string{"Aria", "MyISAM", "Aria TRANSACTIONAL=0"}[i%3], i))
	}
	return s
}

// run executes statements; mysql_seq.s stands for the numbers up to 8000.
func run(t *testing.T, s *scratch.Server, statement string) {
	t.Helper()
	statement = strings.ReplaceAll(statement, "mysql_seq.s", "(SELECT seq FROM mysql.seq_1_to_8000) seq_")
	if _, err := s.DB().ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// ddl are changes of tables that are not of InnoDB, each possible again and again.
func ddl(i int) string {
	a, b := i%12, (i+5)%12
	return []string{
		fmt.Sprintf("RENAME TABLE play.t%d TO play.x%d", a, a),
		fmt.Sprintf("RENAME TABLE play.t%d TO play.tmp, play.t%d TO play.t%d, play.tmp TO play.t%d", a, b, a, b),
		fmt.Sprintf("DROP TABLE play.t%d", b),
		fmt.Sprintf("CREATE TABLE play.n%d (id INT) ENGINE=Aria", i),
		fmt.Sprintf("TRUNCATE TABLE play.t%d", a),
		fmt.Sprintf("CREATE OR REPLACE TABLE play.t%d (id INT, c INT) ENGINE=MyISAM", a),
		fmt.Sprintf("ALTER TABLE play.t%d ADD COLUMN n%d INT, ENGINE=Aria", b, i),
		fmt.Sprintf("CREATE DATABASE d%d", i),
		fmt.Sprintf("CREATE TABLE play.m%d (id INT) ENGINE=MyISAM", i),
		"ALTER DATABASE play CHARACTER SET latin1",
		fmt.Sprintf("CREATE TABLE play.p%d (id INT) ENGINE=Aria PARTITION BY HASH(id) PARTITIONS 2", i),
		fmt.Sprintf("DROP TABLE play.p%d", i-1),
	}[i%12]
}

// backupWhile takes a stream while statements run; next returns one after the other, nil runs none. The tool may fail
// when a table goes away before it could copy it; it is then run again.
func backupWhile(t *testing.T, s *scratch.Server, next func(int) string) []byte {
	t.Helper()
	for range 10 {
		stream, err := tryBackup(t, s, next)
		if err == io.EOF {
			return stream
		}
		failure, ok := errors.AsType[*mariadb.ToolError](err)
		if !ok || next == nil {
			t.Fatal(err)
		}
		t.Logf("%v\n%s", err, strings.Join(failure.Messages, "\n"))
	}
	t.Fatal("the tool failed each time")
	return nil
}

// tryBackup runs the tool once. The error is io.EOF when the stream is whole.
func tryBackup(t *testing.T, s *scratch.Server, next func(int) string) ([]byte, error) {
	t.Helper()
	p, err := mariadb.StartBackup(t.Context(), mariadb.BackupOptions{
		ConnectOptions: mariadb.ConnectOptions{Socket: s.Socket(), User: "root"}, Parallel: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	work := make(chan string)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for statement := range work {
			// It may fail, or wait for the backup's lock and give up: what counts is that the server is busy.
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			_, _ = s.DB().ExecContext(ctx, statement)
			cancel()
		}
	}()
	var stream bytes.Buffer
	buffer := make([]byte, 64<<10)
	for i := 0; err == nil; {
		var n int
		n, err = p.Read(buffer)
		stream.Write(buffer[:n])
		if next == nil {
			continue
		}
		select {
		case work <- next(i):
			i++
		default:
		}
	}
	close(work)
	<-ended
	return stream.Bytes(), err
}

// keepSums are the checksums of the tables that are left alone.
func keepSums(t *testing.T, s *scratch.Server) map[string]uint64 {
	t.Helper()
	sums := make(map[string]uint64)
	for name := range engines() {
		var table string
		var sum sql.Null[uint64]
		err := s.DB().QueryRowContext(t.Context(), "CHECKSUM TABLE keep."+name+" EXTENDED").Scan(&table, &sum)
		if err != nil || !sum.Valid {
			t.Fatalf("checksum of keep.%s: %v", name, err)
		}
		sums[name] = sum.V
	}
	return sums
}

// startOn starts a server on a restored directory and returns it.
func startOn(t *testing.T, dir string) *scratch.Server {
	t.Helper()
	s := &scratch.Server{Dir: dir}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// blocks returns the bytes that a file takes on the disk.
func blocks(t *testing.T, name string) int64 {
	t.Helper()
	var s syscall.Stat_t
	if err := syscall.Stat(name, &s); err != nil {
		t.Fatal(err)
	}
	return s.Blocks * 512
}

// TestRealServer restores what a real server gave.
func TestRealServer(t *testing.T) {
	source := realServer(t)
	t.Run("as mbstream does it", func(t *testing.T) { sameAsMbstream(t, source) })
	t.Run("salvaged", func(t *testing.T) { salvagedServer(t, source) })
	t.Run("busy", func(t *testing.T) { busyServer(t, source) })
}

// busyServer backs a server up while its tables are renamed, dropped and rewritten, restores that, and starts a server
// on it.
func busyServer(t *testing.T, source *scratch.Server) {
	want := keepSums(t, source)
	var stream []byte
	var stats xbstream.Stats
	for try := 0; ; try++ {
		stream = backupWhile(t, source, ddl)
		checker := xbstream.NewChecker(xbstream.Options{})
		if _, err := checker.Write(stream); err != nil {
			t.Fatal(err)
		}
		if err := checker.Close(); err != nil {
			t.Fatal(err)
		}
		if stats = checker.Stats(); stats.Renames > 0 && stats.Removes > 0 && stats.Rewrites > 0 {
			break
		}
		if try == 5 {
			t.Fatalf("after %d backups no stream with all of renames, removes and rewrites: %+v", try, stats)
		}
	}
	t.Logf("stream: %+v; mbstream -x: %v", stats, mbstreamError(t, stream))

	extracted := filepath.Join(t.TempDir(), "extracted")
	if _, err := restore.Extract(t.Context(), streamOf(stream), restore.ExtractOptions{Target: extracted}); err != nil {
		t.Fatal(err)
	}
	backup := makeBackup(t, t.TempDir(), stream, packing{codec: "zstd", blockSize: 1 << 20})
	target := filepath.Join(t.TempDir(), "planned")
	if _, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, NoPrepare: true}); err != nil {
		t.Fatal(err)
	}
	sameTree(t, target, readTree(t, extracted))

	target = filepath.Join(t.TempDir(), "prepared")
	var phases []restore.Phase
	result, err := restore.Run(t.Context(), restore.Options{
		Target: target, Backup: backup, Owner: ourselves(), OnPhase: func(p restore.Phase) { phases = append(phases, p) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if wantPhases := []restore.Phase{restore.PhaseExtract, restore.PhasePrepare, restore.PhaseHandOver}; !slices.Equal(phases, wantPhases) {
		t.Errorf("phases: got %q, want %q", phases, wantPhases)
	}
	if !result.Prepared || result.Prepare <= 0 || len(result.Warnings) != 0 || result.Position == nil || result.Position.ToLSN == 0 {
		t.Errorf("result: got %+v", result)
	}
	assertModes(t, target)
	page := filepath.Join("keep", "pagec.ibd")
	if got, most := blocks(t, filepath.Join(target, page)), blocks(t, filepath.Join(source.Dir, page))*11/10+64<<10; got > most {
		t.Errorf("page-compressed table: takes %d bytes, want at most %d", got, most)
	}
	startAndCompare(t, target, want)
	t.Run("killed in the prepare", func(t *testing.T) {
		target := filepath.Join(t.TempDir(), "killed")
		killInPrepare(t, backup, target)
		result, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, Owner: ourselves()})
		if err != nil {
			t.Fatal(err)
		}
		if !result.Resumed || !result.Prepared || result.Extract != 0 {
			t.Errorf("result: got %+v, want resumed, prepared and not extracted again", result)
		}
		startAndCompare(t, target, want)
	})
}

// startAndCompare starts a server on a restored directory.
func startAndCompare(t *testing.T, target string, want map[string]uint64) {
	t.Helper()
	restored := startOn(t, target)
	if got := keepSums(t, restored); !maps.Equal(got, want) {
		t.Errorf("checksums: got %v, want %v", got, want)
	}
	if _, err := restored.DB().ExecContext(t.Context(), "CREATE TABLE keep.fresh (id INT) ENGINE=InnoDB; INSERT INTO keep.fresh VALUES (1)"); err != nil {
		t.Errorf("write to the restored server: %v", err)
	}
}

// killInPrepare kills a restore as soon as its prepare has begun.
func killInPrepare(t *testing.T, backup *catalog.Backup, target string) {
	t.Helper()
	cmd := helper(t, backup.Repository.Location(), target, "prepare")
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(target, unfinished, "state.json")
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		text, err := os.ReadFile(state)
		if bytes.Contains(text, []byte(`"phase": "preparing"`)) {
			break
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatalf("restore was done before it was killed: %s", out.String())
	}
	assertUnfinished(t, target)
}

// mbstreamError tells what the stock extractor makes of a stream.
func mbstreamError(t *testing.T, stream []byte) error {
	t.Helper()
	_, err := mbstream(t, stream)
	return err
}

// mbstream extracts a stream with the stock tool and returns where to.
func mbstream(t *testing.T, stream []byte) (string, error) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), testenv.Need(t, "mbstream"), "-x", "-C", dir)
	cmd.Stdin = bytes.NewReader(stream)
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
}

// assertModes tells whether everything below dir is as closed as a server's files should be.
func assertModes(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if mode := info.Mode().Perm(); mode&0o027 != 0 {
			t.Errorf("%q: got mode %o", name, mode)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sameAsMbstream extracts a real stream that mbstream can extract, too.
func sameAsMbstream(t *testing.T, source *scratch.Server) {
	stream := backupWhile(t, source, nil)
	theirs, err := mbstream(t, stream)
	if err != nil {
		t.Fatal(err)
	}
	want := readTree(t, theirs)
	ours := filepath.Join(t.TempDir(), "ours")
	packed := compress(t, "zstd", stream, 1<<20)
	if _, err := restore.Extract(t.Context(), streamOf(packed), restore.ExtractOptions{Target: ours}); err != nil {
		t.Fatal(err)
	}
	sameTree(t, ours, want)
	page := filepath.Join("keep", "pagec.ibd")
	if got, most := blocks(t, filepath.Join(ours, page)), blocks(t, filepath.Join(theirs, page))*5/4; got > most {
		t.Errorf("page-compressed table: takes %d bytes, mbstream's %d", got, most)
	}
	backup := makeBackup(t, t.TempDir(), stream, packing{codec: "lz4"})
	target := filepath.Join(t.TempDir(), "t")
	if _, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, NoPrepare: true}); err != nil {
		t.Fatal(err)
	}
	sameTree(t, target, want)
}
