package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/internal/testenv"
)

// teeTool makes a mariadb-backup that also keeps its stream in a file.
func teeTool(t *testing.T) (tool, stream string) {
	t.Helper()
	dir := t.TempDir()
	tool, stream = filepath.Join(dir, "mariadb-backup"), filepath.Join(dir, "stream")
	script := fmt.Sprintf(`#!/bin/bash
set -o pipefail
case " $* " in
*" --backup "*) %[1]s "$@" | tee %[2]s ;;
*) exec %[1]s "$@" ;;
esac
`, testenv.Need(t, "mariadb-backup"), stream)
	if err := os.WriteFile(tool, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return tool, stream
}

// show returns the manifest of a backup, as show --json tells it.
func show(t *testing.T, repo, id string) *catalog.Manifest {
	t.Helper()
	var s struct{ Manifest *catalog.Manifest }
	if err := json.Unmarshal([]byte(suite.cgo.must(t, "show", id, "--json", "--repo", repo).stdout), &s); err != nil {
		t.Fatal(err)
	}
	if s.Manifest == nil {
		t.Fatalf("show %s: no manifest", id)
	}
	return s.Manifest
}

// digest is the SHA-256 of a file.
func digest(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// TestMainJob is what the program is for: back up a server with tables of every kind, lose data, restore, and have all
// of it again. One build writes and the other restores, with every codec and both ways.
func TestMainJob(t *testing.T) {
	s := source.get(t)
	repo := filepath.Join(diskDir(t), "repo")
	tool, stream := teeTool(t)
	want := s.account()
	var file, position string
	row := s.DB().QueryRowContext(t.Context(), "SHOW MASTER STATUS")
	if err := row.Scan(&file, &position, new(string), new(string)); err != nil {
		t.Fatal(err)
	}
	gtid := s.text("SELECT @@gtid_binlog_pos")

	took := suite.cgo.must(t, s.backup(repo, "--tool", tool)...).took
	t.Logf("backup: %v", took)
	got := show(t, repo, "latest")
	if got.Binlog == nil || got.Binlog.File != file || fmt.Sprint(got.Binlog.Position) != position || got.Binlog.GTID != gtid {
		t.Errorf("position in the manifest: got %+v, want %s %s %s", got.Binlog, file, position, gtid)
	}
	if version := s.text("SELECT VERSION()"); got.ServerVersion == "" || !strings.HasPrefix(version, strings.TrimSuffix(got.ServerVersion, "-log")) {
		t.Errorf("server version: got %q, want that of %q", got.ServerVersion, version)
	}
	suite.cgo.must(t, "verify", "--level", "read", "--repo", repo)
	if rows := list(t, repo); len(rows) != 1 || rows[0].State != "complete" || rows[0].Verified == nil || !rows[0].Verified.OK {
		t.Errorf("list: got %+v, want one complete, verified backup", rows)
	}

	s.exec("CREATE DATABASE later", "CREATE TABLE later.t (a INT)", "DROP DATABASE empty_one")
	s.exec("RENAME TABLE special.zipped TO later.zipped", "RENAME TABLE later.zipped TO special.zipped")
	s.exec("DROP DATABASE later", "CREATE DATABASE empty_one")

	for i, codec := range []string{"zstd", "gzip", "lz4", "none"} {
		t.Run(codec, func(t *testing.T) {
			repo := repo
			if i > 0 {
				repo = filepath.Join(diskDir(t), "repo")
			}
			crosswise(t, repo, codec, stream)
			reader := builds()[(i+1)%2] // of what the other one wrote last
			restored(t, reader, repo, want)
		})
	}
}

// crosswise stores the stream with each build and has the other give it back. The last is written by the build that does
// not read next; the zstd repository holds one already.
func crosswise(t *testing.T, repo, codec, stream string) {
	t.Helper()
	want := digest(t, stream)
	for i, writer := range builds() {
		in, err := os.Open(stream)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("by%d", i)
		writer.mustCall(t, call{stdin: in}, "backup", "--stdin", "--repo", repo, "--server", name, "--codec", codec)
		in.Close()
		sum := sha256.New()
		builds()[1-i].mustCall(t, call{stdout: sum}, "cat", "latest", "--repo", repo, "--server", name)
		if got := fmt.Sprintf("%x", sum.Sum(nil)); got != want {
			t.Errorf("%s written by %s: cat gives %s, want the tool's stream, %s", codec, filepath.Base(string(writer)), got, want)
		}
	}
}

// restored restores what the other build has written, starts a server on it and compares everything.
func restored(t *testing.T, reader program, repo string, want map[string]string) {
	t.Helper()
	server := "by0"
	if reader == suite.cgo {
		server = "by1"
	}
	target := filepath.Join(diskDir(t), "data")
	o := reader.must(t, "restore", "--repo", repo, "--server", server, "--target-dir", target)
	t.Logf("%s restored what %s wrote: %v", filepath.Base(string(reader)), server, o.took)
	back := startOn(t, target)
	same(t, "restored server", back.account(), want)
	back.soundGenerated()
}

// soundGenerated looks at the table whose checksum the server can't tell.
func (s *server) soundGenerated() {
	s.t.Helper()
	const query = "SELECT CONCAT(COUNT(*), ' ', SUM(b), ' ', SUM(c = CONCAT(MD5(id), '-', id)), ' ', SUM(a = MD5(id))) FROM odd.generated"
	if got, want := s.text(query), "2000 6005000 2000 2000"; got != want {
		s.t.Errorf("table with generated columns: got %s, want %s", got, want)
	}
	s.exec("INSERT INTO odd.generated (id, a) VALUES (9999, 'new')", "DELETE FROM odd.generated WHERE id = 9999")
	if got := s.text("SELECT COUNT(*) FROM special.searched WHERE MATCH (body) AGAINST ('lorem')"); got != "2000" {
		s.t.Errorf("full-text index: got %s hits, want 2000", got)
	}
}

// TestDataElsewhere restores a table that lies outside the data directory: the operator is told, and what the message
// says works.
func TestDataElsewhere(t *testing.T) {
	elsewhere := shortDir(t)
	s := startNew(t)
	s.exec("CREATE DATABASE far", "CREATE TABLE far.t (a INT PRIMARY KEY) ENGINE=InnoDB DATA DIRECTORY='"+elsewhere+"'",
		"INSERT INTO far.t SELECT seq FROM far.seq_1_to_1000")
	want := s.account()
	repo := filepath.Join(t.TempDir(), "repo")
	suite.cgo.must(t, s.backup(repo)...)
	s.exec("INSERT INTO far.t VALUES (5000)") // the restored server must not see this one
	target := filepath.Join(shortDir(t), "data")
	o := suite.cgo.run(t, "restore", "--repo", repo, "--server", "e2e", "--target-dir", target)
	if o.code != 3 || !strings.Contains(o.stderr, elsewhere) {
		t.Fatalf("got exit code %d and %q, want 3 and a warning that names %s", o.code, o.stderr, elsewhere)
	}
	t.Log(o.stderr)
	if err := os.Remove(filepath.Join(target, "far", "t.isl")); err != nil {
		t.Fatal(err)
	}
	for name, value := range want { // the table is a plain one now
		value, _, _ = strings.Cut(value, " DATA DIRECTORY")
		want[name] = strings.TrimSpace(value)
	}
	got := startOn(t, target).account()
	for name, value := range got {
		got[name] = strings.TrimSpace(value)
	}
	same(t, "restored server", got, want)
}

// TestTwoRepositories writes one pass into two places, byte for byte the same.
func TestTwoRepositories(t *testing.T) {
	s := source.get(t)
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	suite.cgo.must(t, s.backup(one, "--repo", two, "--codec", "lz4", "--volume-size", "4MiB")...)
	names := fileNames(t, one)
	if len(names) < 8 {
		t.Errorf("got files %q, want several volumes and what belongs to them", names)
	}
	if got := fileNames(t, two); strings.Join(got, " ") != strings.Join(names, " ") {
		t.Fatalf("got files %q in one, %q in the other", names, got)
	}
	for _, name := range names {
		a, errA := os.ReadFile(filepath.Join(one, name))
		b, errB := os.ReadFile(filepath.Join(two, name))
		if errA != nil || errB != nil || name != "mbwrap.json" && !bytes.Equal(a, b) {
			t.Errorf("%s: %v, %v, or the two differ", name, errA, errB)
		}
	}
	for _, repo := range []string{one, two} {
		suite.pure.must(t, "verify", "--repo", repo, "--level", "read")
	}
}
