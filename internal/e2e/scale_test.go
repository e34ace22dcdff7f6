package e2e_test

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/xbstream"
)

// maxRSS is what a backup with two jobs may use at its peak, in bytes, whatever its size.
const maxRSS = 128 << 20

// writeTables writes the stream of a backup of so many empty tables: a definition and a tablespace each.
func writeTables(t *testing.T, path string, tables int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := bufio.NewWriterSize(f, 1<<20)
	w := xbstream.NewWriter(buf)
	file := func(name, content string) {
		h := xbstream.Header{Type: xbstream.TypePayload, Path: name, Size: int64(len(content)), CRC: crc32.ChecksumIEEE([]byte(content))}
		if err == nil {
			err = w.WriteHeader(&h)
		}
		if err == nil {
			_, err = w.Write([]byte(content))
		}
		if err == nil {
			err = w.WriteHeader(&xbstream.Header{Type: xbstream.TypeEnd, Path: name})
		}
	}
	for i := range tables {
		name := fmt.Sprintf("shop%02d/customer_orders_%06d", i%20, i)
		file(name+".frm", "\xfe\x01\x0a\x0c"+strings.Repeat("\x00", 60)+name)
		file(name+".ibd", strings.Repeat(name, 3))
	}
	file("xtrabackup_checkpoints", "backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = 45419\nlast_lsn = 45435\nrecover_binlog_info = 0\n")
	file("backup-my.cnf", "[mysqld]\ninnodb_page_size=16384\n")
	file("xtrabackup_info", "uuid = 1\ntool_version = 10.11.19-MariaDB\nserver_version = 10.11.19-MariaDB\n"+
		"start_time = 2026-01-02 03:04:05\nend_time = 2026-01-02 03:04:06\nbinlog_pos = \ninnodb_from_lsn = 0\ninnodb_to_lsn = 45419\n"+
		"partial = N\nincremental = N\nformat = mbstream\ncompressed = N\n")
	for _, e := range []error{err, w.Close(), buf.Flush(), f.Close()} {
		if e != nil {
			t.Fatal(e)
		}
	}
}

// fakeTool makes a mariadb-backup that gives a stream from a file and claims success.
func fakeTool(t *testing.T, stream string) string {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "mariadb-backup")
	script := fmt.Sprintf("#!/bin/sh\ncat '%s' && echo '[00] 2026-01-02 03:04:06 completed OK!' >&2\n", stream)
	if err := os.WriteFile(tool, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return tool
}

// TestManyTables takes a backup of 100,000 tables through all commands.
func TestManyTables(t *testing.T) {
	const tables = 100_000
	dir := shortDir(t)
	stream, repo := filepath.Join(dir, "stream"), filepath.Join(dir, "repo")
	writeTables(t, stream, tables)
	at := []string{"--repo", repo, "--server", "many"}
	o := suite.cgo.mustCall(t, call{rss: true}, append(at, "backup", "--tool", fakeTool(t, stream), "--skip-check", "--jobs", "2")...)
	t.Logf("backup: %v, %d MiB", o.took, o.rss>>20)
	if o.rss == 0 || o.rss >= maxRSS {
		t.Errorf("backup: peak memory is %d MiB, want less than %d", o.rss>>20, maxRSS>>20)
	}
	for _, step := range []struct {
		name  string
		args  []string
		lines int // of output
	}{
		{"list", []string{"list"}, 2},
		{"files", []string{"files", "latest"}, 2*tables + 3},
		{"verify", []string{"verify", "--level", "read"}, 0},
	} {
		o := suite.cgo.mustCall(t, call{rss: true}, append(at, step.args...)...)
		t.Logf("%s: %v, %d MiB", step.name, o.took, o.rss>>20)
		if got := strings.Count(o.stdout, "\n"); got != step.lines {
			t.Errorf("%s: got %d lines, want %d", step.name, got, step.lines)
		}
		if o.took > 15*time.Second {
			t.Errorf("%s took %v", step.name, o.took)
		}
	}
	target := filepath.Join(dir, "data")
	o = suite.cgo.mustCall(t, call{rss: true}, append(at, "restore", "--no-prepare", "--target-dir", target)...)
	t.Logf("restore: %v, %d MiB", o.took, o.rss>>20)
	if got, want := countFiles(t, target), 2*tables+3; got != want {
		t.Errorf("restore: got %d files, want %d", got, want)
	}
}

// countFiles counts the files in dir and in the directories right below it, without looking at each.
func countFiles(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if e.IsDir() {
			n += countFiles(t, filepath.Join(dir, e.Name()))
		} else {
			n++
		}
	}
	return n
}

// TestMemory packs a large stream, made on the fly, encrypted, reads it back with the pages of its tables checked, and
// measures the peaks.
func TestMemory(t *testing.T) {
	const size = 1536 << 20
	repo := filepath.Join(shortDir(t), "repo")
	identity, recipient := keygen(t)
	gen := exec.CommandContext(t.Context(), suite.gen, "--kind", "tpcc", "--size", fmt.Sprint(size))
	data, err := gen.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := gen.Start(); err != nil {
		t.Fatal(err)
	}
	o := suite.cgo.mustCall(t, call{stdin: data, rss: true}, "backup", "--stdin", "--repo", repo, "--server", "large", "--jobs", "2", "--level", "1",
		"--encrypt-to", recipient)
	if err := gen.Wait(); err != nil {
		t.Error(err)
	}
	rate := float64(size>>20) / o.took.Seconds()
	t.Logf("%v, %.0f MiB/s, peak memory %d MiB", o.took, rate, o.rss>>20)
	if o.rss == 0 || o.rss >= maxRSS {
		t.Errorf("peak memory is %d MiB, want less than %d", o.rss>>20, maxRSS>>20)
	}
	if rows := list(t, repo); len(rows) != 1 || rows[0].RawBytes < size*9/10 {
		t.Errorf("got %+v, want one backup of about %d bytes", rows, size)
	}
	o = suite.cgo.mustCall(t, call{rss: true}, "verify", "--repo", repo, "--identity", identity, "--level", "pages", "--jobs", "2")
	t.Logf("verify: %v, peak memory %d MiB", o.took, o.rss>>20)
	if o.rss == 0 || o.rss >= maxRSS {
		t.Errorf("verify: peak memory is %d MiB, want less than %d", o.rss>>20, maxRSS>>20)
	}
}
