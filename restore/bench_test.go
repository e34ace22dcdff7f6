package restore_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/restore"
	"github.com/mbwrap/mbwrap/xbstream"
)

// digitPages are pages of random digits, such as sysbench's tables are full of.
func digitPages(seed uint64, n int) []byte {
	data := noise(seed, n)
	for i := range data {
		data[i] = '0' + data[i]%10
	}
	for at := 0; at+(16<<10) <= n; at += 16 << 10 {
		clear(data[at+15<<10 : at+16<<10]) // a page is seldom full
	}
	return data
}

// benchStream is a stream of some 300 MB: 24 tables that come two at a time in chunks of 10 MiB.
func benchStream(tb testing.TB) []byte {
	const files, size, chunk = 24, 12_500 << 10, 10 << 20
	page := digitPages(7, size)
	copy(page, page0(0x15))
	b := newStream(tb)
	b.buf.Grow(files * (size + 1024))
	for i := 0; i < files; i += 2 {
		names := []string{fmt.Sprintf("sbtest/sbtest%d.ibd", i), fmt.Sprintf("sbtest/sbtest%d.ibd", i+1)}
		for at := 0; at < size; at += chunk {
			for _, name := range names {
				b.put(name, page[at:min(at+chunk, size)])
			}
		}
		b.end(names[0]).end(names[1])
	}
	return b.meta().bytes()
}

// BenchmarkRestore compares both ways of restoring with the pipeline that users have today, into the same file system.
// Run it with TMPDIR=/dev/shm to leave the disk out.
func BenchmarkRestore(b *testing.B) {
	stream := benchStream(b)
	dir := b.TempDir()
	backup := makeBackup(b, filepath.Join(dir, "repo"), stream, packing{codec: "zstd", level: "auto", blockSize: 4 << 20})
	stored := filepath.Join(dir, "repo", "db1", backup.ID, backup.Manifest.Volumes[0].Name)
	want := int64(len(stream))
	fresh := func(b *testing.B) string {
		b.StopTimer()
		defer b.StartTimer()
		target := filepath.Join(dir, "target")
		if err := os.RemoveAll(target); err != nil {
			b.Fatal(err)
		}
		return target
	}
	b.Run("planned", func(b *testing.B) {
		b.SetBytes(want)
		b.ReportAllocs()
		for b.Loop() {
			result, err := restore.Run(b.Context(), restore.Options{Target: fresh(b), Backup: backup, NoPrepare: true})
			if err != nil || result.Files != 28 {
				b.Fatalf("got %d files, %v", result.Files, err)
			}
		}
	})
	b.Run("extract", func(b *testing.B) {
		b.SetBytes(want)
		b.ReportAllocs()
		for b.Loop() {
			f, err := os.Open(stored)
			if err != nil {
				b.Fatal(err)
			}
			s := &restore.Stream{Reader: f, Name: stored}
			result, err := restore.Extract(b.Context(), s, restore.ExtractOptions{Target: fresh(b)})
			f.Close()
			if err != nil || result.Files != 28 {
				b.Fatalf("got %d files, %v", result.Files, err)
			}
		}
	})
	b.Run("peer", func(b *testing.B) { benchPeer(b, stored, "true", fresh) })
	b.Run("peer and sync", func(b *testing.B) { benchPeer(b, stored, "sync -f .", fresh) })
}

// benchPeer runs zstd and mbstream, and then something else in the target.
func benchPeer(b *testing.B, stored, then string, fresh func(*testing.B) string) {
	zstd, mbstream := testenv.Need(b, "zstd"), testenv.Need(b, "mbstream")
	b.SetBytes(xbstreamSize(b, zstd, stored))
	for b.Loop() {
		target := fresh(b)
		if err := os.Mkdir(target, 0o700); err != nil {
			b.Fatal(err)
		}
		script := fmt.Sprintf("cd %s && %s -dcq %s | %s -x -p 2 && %s", target, zstd, stored, mbstream, then)
		if out, err := exec.CommandContext(b.Context(), "bash", "-o", "pipefail", "-c", script).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
}

// xbstreamSize decodes a file once and returns how long the plain stream is.
func xbstreamSize(b *testing.B, zstd, stored string) int64 {
	out, err := exec.CommandContext(b.Context(), zstd, "-dcq", stored).Output()
	if err != nil || !bytes.HasPrefix(out, []byte(xbstream.Magic)) {
		b.Fatalf("got %d bytes, %v", len(out), err)
	}
	return int64(len(out))
}
