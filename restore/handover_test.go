package restore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/restore"
	"github.com/mbwrap/mbwrap/xbstream"
)

// fakeTool is a stand-in for mariadb-backup: it tells its version, and runs a line of shell in the directory that it is
// to prepare.
func fakeTool(t *testing.T, version, prepare string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "mariadb-backup")
	script := fmt.Sprintf(`#!/bin/sh
for a in "$@"; do
  case "$a" in
  --version) echo "mariadb-backup based on MariaDB server %s-MariaDB Linux (x86_64)"; exit 0 ;;
  --target-dir=*) cd "${a#*=}" ;;
  esac
done
%s
`, version, prepare)
	if err := os.WriteFile(name, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

const preparedWell = `echo prepared > prepared; chmod 0666 prepared; echo "[00] 2026-11-30 18:01:02 completed OK!" >&2`

func TestToolRefused(t *testing.T) {
	stream, _ := smallStream(t)
	backup := makeBackup(t, memoryDir(t), stream, packing{server: "11.4.9-MariaDB-log"})
	incremental := makeBackup(t, memoryDir(t), stream, packing{typ: catalog.Incremental})
	for _, c := range []struct {
		name   string
		backup *catalog.Backup
		tool   string
		check  func(error) bool
	}{
		{"older than the server", backup, fakeTool(t, "10.11.19", preparedWell), func(err error) bool {
			var e *restore.VersionError
			return errors.As(err, &e) && e.ToolVersion == "10.11.19" && e.ServerVersion == "11.4.9"
		}},
		{"missing", backup, "/no/such/tool", func(err error) bool { return errors.Is(err, mariadb.ErrNoTool) }},
		{"incremental", incremental, fakeTool(t, "11.4.9", preparedWell), func(err error) bool { return errors.Is(err, restore.ErrIncremental) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := filepath.Join(memoryDir(t), "t")
			_, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: c.backup, Tool: c.tool})
			if !c.check(err) {
				t.Errorf("got %v", err)
			}
			if !absentFile(target) {
				t.Error("refused target: something was made")
			}
		})
	}
	// A newer patch level of the server's own series is fine, and so is a newer series of the tool.
	for _, version := range []string{"11.4.2", "11.8.1"} {
		target := filepath.Join(memoryDir(t), "t")
		o := restore.Options{Target: target, Backup: backup, Tool: fakeTool(t, version, preparedWell)}
		if _, err := restore.Run(t.Context(), o); err != nil {
			t.Errorf("tool %s: %v", version, err)
		}
	}
}

// TestStreamOfNewerServer learns the server's version out of the stream only.
func TestStreamOfNewerServer(t *testing.T) {
	b := newStream(t).file("shop/t.ibd", "x").file("xtrabackup_checkpoints", checkpoints).file("backup-my.cnf", "[mysqld]\n")
	stream := b.file("xtrabackup_info", "server_version = 11.8.2-MariaDB\n").bytes()
	target := filepath.Join(memoryDir(t), "t")
	o := restore.Options{Target: target, Stream: streamOf(stream), Tool: fakeTool(t, "10.11.19", preparedWell)}
	_, err := restore.Run(t.Context(), o)
	var version *restore.VersionError
	var incomplete *restore.IncompleteError
	if !errors.As(err, &version) || !errors.As(err, &incomplete) {
		t.Fatalf("got %v, want an IncompleteError with a VersionError", err)
	}
	assertUnfinished(t, target)
}

func TestPrepareFails(t *testing.T) {
	stream, want := smallStream(t)
	backup := makeBackup(t, memoryDir(t), stream, packing{})
	target := filepath.Join(memoryDir(t), "t")
	broken := fakeTool(t, "10.11.19", `echo half > half; echo "[00] FATAL ERROR: 2026-11-30 18:01:02 no luck" >&2; exit 1`)
	for _, again := range []bool{true, false, false} {
		_, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, Tool: broken})
		var tool *mariadb.ToolError
		var incomplete *restore.IncompleteError
		if !errors.As(err, &tool) || tool.Exit != 1 || !errors.As(err, &incomplete) ||
			incomplete.Phase != restore.PhasePrepare || incomplete.Again != again {
			t.Fatalf("got %v, want an IncompleteError with a ToolError, again %v", err, again)
		}
		if advice := strings.Contains(err.Error(), "remove"); advice == again {
			t.Errorf("advice to remove: got %v in %q", advice, err)
		}
		assertUnfinished(t, target)
	}
	// --no-prepare must not make a data directory out of what is half prepared.
	_, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, Tool: broken, NoPrepare: true})
	if err == nil {
		t.Error("half prepared files handed over without a prepare")
	}
	assertUnfinished(t, target)
	good := fakeTool(t, "10.11.19", preparedWell)
	result, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, Tool: good, Owner: ourselves()})
	if err != nil || !result.Resumed || !result.Prepared {
		t.Fatalf("got %+v, %v", result, err)
	}
	want["prepared"], want["half"] = "prepared\n", "half\n"
	sameTree(t, target, want)
	assertModes(t, target)
}

// stopWriter calls stop with the first write.
type stopWriter func()

func (stop stopWriter) Write(p []byte) (int, error) {
	stop()
	return len(p), nil
}

// TestPrepareCancelled stops the tool, and has the next run prepare again.
func TestPrepareCancelled(t *testing.T) {
	stream, want := smallStream(t)
	backup := makeBackup(t, memoryDir(t), stream, packing{})
	target := filepath.Join(memoryDir(t), "t")
	ctx, cancel := context.WithCancel(t.Context())
	o := restore.Options{
		Target: target, Backup: backup, Owner: ourselves(), ToolLog: stopWriter(cancel),
		Tool: fakeTool(t, "10.11.19", `echo "[00] 2026-11-30 18:01:02 recovering" >&2; exec sleep 100`),
	}
	for range 3 {
		_, err := restore.Run(ctx, o)
		var incomplete *restore.IncompleteError
		if !errors.Is(err, context.Canceled) || !errors.As(err, &incomplete) || !incomplete.Again {
			t.Fatalf("got %v, want an IncompleteError of %v", err, context.Canceled)
		}
		assertUnfinished(t, target)
		ctx, cancel = context.WithCancel(t.Context())
		o.ToolLog = stopWriter(cancel)
	}
	o.Tool, o.ToolLog = fakeTool(t, "10.11.19", preparedWell), nil
	result, err := restore.Run(t.Context(), o)
	if err != nil || !result.Resumed || !result.Prepared || result.Extract != 0 {
		t.Fatalf("got %+v, %v", result, err)
	}
	want["prepared"] = "prepared\n"
	sameTree(t, target, want)
}

// TestUnpreparable leaves alone what the tool would misread.
func TestUnpreparable(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(b *builder) *builder
		want  func(error) bool
	}{
		{"files compressed one by one", func(b *builder) *builder { return b.file("shop/t.ibd.qp", "qpress10").meta() },
			func(err error) bool { return strings.Contains(err.Error(), "shop/t.ibd.qp") }},
		{"no checkpoints", func(b *builder) *builder { return b.file("shop/t.ibd", "x") },
			func(err error) bool { return errors.Is(err, mariadb.ErrNoMetadata) }},
		{"damaged checkpoints", func(b *builder) *builder { return b.file("shop/t.ibd", "x").file("xtrabackup_checkpoints", "what?") },
			func(err error) bool { return strings.Contains(err.Error(), "backup_type is missing") }},
		{"incremental", func(b *builder) *builder {
			return b.file("shop/t.ibd.delta", "x").file("xtrabackup_checkpoints", strings.Replace(checkpoints, "full-backuped", "incremental", 1))
		}, func(err error) bool { return errors.Is(err, restore.ErrIncremental) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := filepath.Join(memoryDir(t), "t")
			s := streamOf(c.build(newStream(t)).bytes())
			s.Expect = xbstream.ExpectAny
			tool := fakeTool(t, "10.11.19", preparedWell)
			if _, err := restore.Run(t.Context(), restore.Options{Target: target, Stream: s, Tool: tool}); err == nil || !c.want(err) {
				t.Errorf("got %v", err)
			}
			assertUnfinished(t, target)
		})
	}
}

// ownership returns the numbers of a file's owner and group.
func ownership(t *testing.T, name string) [2]uint32 {
	t.Helper()
	var s syscall.Stat_t
	if err := syscall.Lstat(name, &s); err != nil {
		t.Fatal(err)
	}
	return [2]uint32{s.Uid, s.Gid}
}

func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Missing(t, "root", "files can't be given away")
	}
	stream, _ := smallStream(t)
	backup := makeBackup(t, memoryDir(t), stream, packing{})
	for _, c := range []struct {
		name   string
		before func(target string) error
		owner  string
		want   [2]uint32
	}{
		{"given", func(string) error { return nil }, "12345:54321", [2]uint32{12345, 54321}},
		{"that of the target", func(target string) error {
			return errors.Join(os.Mkdir(target, 0o700), os.Chown(target, 2345, 5432))
		}, "", [2]uint32{2345, 5432}},
		{"given, for a target of somebody else", func(target string) error {
			return errors.Join(os.Mkdir(target, 0o700), os.Chown(target, 2345, 5432))
		}, "12345:54321", [2]uint32{12345, 54321}},
		{"root's own target", func(target string) error { return os.Mkdir(target, 0o700) }, "", [2]uint32{0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := filepath.Join(memoryDir(t), "t")
			if err := c.before(target); err != nil {
				t.Fatal(err)
			}
			_, existed := os.Stat(target)
			before := [2]uint32{}
			if existed == nil {
				before = ownership(t, target)
			}
			o := restore.Options{Target: target, Backup: backup, Owner: c.owner, Tool: fakeTool(t, "10.11.19", preparedWell)}
			if _, err := restore.Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"shop", "shop/t.ibd", "ibdata1", "prepared"} {
				if got := ownership(t, filepath.Join(target, name)); got != c.want {
					t.Errorf("%q: got owner %v, want %v", name, got, c.want)
				}
			}
			want := before
			if existed != nil {
				want = c.want
			}
			if got := ownership(t, target); got != want {
				t.Errorf("target: got owner %v, want %v", got, want)
			}
			if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("target: got %v, %v, want mode 700", info.Mode(), err)
			}
		})
	}
	target := filepath.Join(memoryDir(t), "t")
	if _, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, Owner: "no such user", NoPrepare: true}); err == nil || !absentFile(target) {
		t.Errorf("unknown owner: got %v, want an error and nothing touched", err)
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(b *builder)
		want  []string // one part of each warning
	}{
		{"none", func(b *builder) { b.file("shop/t.ibd", "x").meta() }, nil},
		{"no tables of users", func(b *builder) { b.file("mysql/user.MAD", "x").file("shop/db.opt", "x").meta() }, []string{"no tables but"}},
		{"table elsewhere", func(b *builder) {
			b.file("shop/t.ibd", "x").file("shop/t.isl", "/mnt/fast/shop/t.ibd\n").file("shop/u.isl", "").meta()
		}, []string{`"/mnt/fast/shop/t.ibd"`}},
		{"partial", func(b *builder) {
			b.file("shop/t.ibd", "x").file("xtrabackup_checkpoints", checkpoints).file("backup-my.cnf", "[mysqld]\n")
			b.file("xtrabackup_info", "partial = Y\n")
		}, []string{"partial"}},
		{"undo elsewhere", func(b *builder) {
			b.file("shop/t.ibd", "x").file("mariadb_backup_checkpoints", checkpoints)
			b.file("backup-my.cnf", "[mysqld]\ninnodb_undo_directory=/mnt/undo\n").file("mariadb_backup_info", "partial = N\n")
		}, []string{"innodb_undo_directory=/mnt/undo"}},
		{"undo here", func(b *builder) {
			b.file("shop/t.ibd", "x").file("mariadb_backup_checkpoints", checkpoints)
			b.file("backup-my.cnf", "[mysqld]\ninnodb_undo_directory=./\n").file("mariadb_backup_info", "partial = N\n")
		}, nil},
		{"corrupt pages", func(b *builder) { b.file("shop/t.ibd", "x").meta().file("innodb_corrupted_pages", "shop/t 5\n3 4\n") },
			[]string{"corrupt pages"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newStream(t)
			c.build(b)
			target := filepath.Join(memoryDir(t), "t")
			result, err := restore.Run(t.Context(), restore.Options{Target: target, Stream: streamOf(b.bytes()), NoPrepare: true})
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Warnings) != len(c.want) {
				t.Fatalf("got %q, want %d warnings", result.Warnings, len(c.want))
			}
			for i, part := range c.want {
				if !strings.Contains(result.Warnings[i], part) {
					t.Errorf("got %q, want %q in it", result.Warnings[i], part)
				}
			}
		})
	}
}

func TestSelection(t *testing.T) {
	stream, want := killStream(t)
	backup := makeBackup(t, memoryDir(t), stream, packing{blockSize: 16 << 10})
	target := filepath.Join(memoryDir(t), "t")
	var total int64
	result, err := restore.Run(t.Context(), restore.Options{
		Target: target, Backup: backup, NoPrepare: true, OnTotal: func(n int64) { total = n },
		Select: func(f catalog.File) bool { return strings.HasPrefix(f.Path, "db3/") },
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if !strings.HasPrefix(name, "db3/") {
			delete(want, name)
		}
	}
	sameTree(t, target, want)
	sameCounts(t, result, want)
	if total > int64(len(stream))/2 {
		t.Errorf("reads %d of %d bytes for a seventh of the files", total, len(stream))
	}
	target = filepath.Join(memoryDir(t), "t")
	o := restore.Options{Target: target, Backup: backup, NoPrepare: true, Select: func(catalog.File) bool { return false }}
	if _, err := restore.Run(t.Context(), o); !errors.Is(err, restore.ErrNothing) || !absentFile(target) {
		t.Errorf("an empty selection: got %v, want %v and nothing touched", err, restore.ErrNothing)
	}
}

func TestNextSteps(t *testing.T) {
	stream, _ := smallStream(t)
	backup := makeBackup(t, memoryDir(t), stream, packing{})
	target := filepath.Join(memoryDir(t), "data dir")
	o := restore.Options{Target: target, Backup: backup, Tool: fakeTool(t, "10.11.19", preparedWell)}
	result, err := restore.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"innodb_data_file_path=ibdata1:10M:autoextend", "mariadbd --datadir='" + target + "'", "gtid_slave_pos='0-1-34'", "bin.000007", "4711",
	} {
		if !strings.Contains(strings.Join(result.Next, "\n"), part) {
			t.Errorf("got %q, want %q in it", result.Next, part)
		}
	}
	if slices.ContainsFunc(result.Next, func(s string) bool { return strings.Contains(s, "--prepare") }) {
		t.Errorf("got %q, want no prepare of what is prepared", result.Next)
	}
	o.Target, o.NoPrepare = filepath.Join(memoryDir(t), "t"), true
	if result, err = restore.Run(t.Context(), o); err != nil || !strings.Contains(result.Next[0], "mariadb-backup --prepare") {
		t.Errorf("not prepared: got %q, %v", result.Next, err)
	}
}

// TestNoOptions refuses calls that make no sense.
func TestNoOptions(t *testing.T) {
	stream, _ := smallStream(t)
	backup := makeBackup(t, memoryDir(t), stream, packing{})
	target := filepath.Join(memoryDir(t), "t")
	for _, o := range []restore.Options{
		{Target: target, NoPrepare: true}, {Target: target, NoPrepare: true, Backup: backup, Stream: streamOf(stream)}, {NoPrepare: true, Backup: backup},
	} {
		if _, err := restore.Run(t.Context(), o); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
	bad := *backup
	bad.Manifest, bad.State = nil, catalog.Bad
	if _, err := restore.Run(t.Context(), restore.Options{Target: target, NoPrepare: true, Backup: &bad}); !errors.Is(err, catalog.ErrManifest) {
		t.Errorf("no manifest: got %v, want %v", err, catalog.ErrManifest)
	}
	if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("target: got %v, want it absent", err)
	}
}
