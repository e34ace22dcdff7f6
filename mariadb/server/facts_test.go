package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/mariadb/internal/process"
	"github.com/mbwrap/mbwrap/mariadb/version"
)

func write(t *testing.T, path string, size int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMeasureData(t *testing.T) {
	root := t.TempDir()
	dir, undo, outside, elsewhere := filepath.Join(root, "data"), filepath.Join(root, "undo"), filepath.Join(root, "o/t.ibd"), filepath.Join(root, "db2")
	for name, size := range map[string]int{
		"data/ibdata1": 1, "data/ibtmp1": 1 << 20, "data/ib_logfile0": 1 << 20, "data/bin.000001": 1 << 20, "data/host.err": 1 << 20,
		"data/aria_log.00000001": 2, "data/db/t.ibd": 4, "data/db/#sql-1.ibd": 1 << 20, "data/db/m.MYD": 8, "data/lost+found/x": 1 << 20,
		"undo/undo001": 16, "undo/ib_logfile0": 1 << 20, "o/t.ibd": 32, "db2/u.ibd": 64, "data/sub/dir/deep.ibd": 128,
	} {
		write(t, filepath.Join(root, name), size)
	}
	if err := os.WriteFile(filepath.Join(dir, "db/t.isl"), []byte(outside+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "link")
	if err := errors.Join(os.Symlink(dir, link), os.Symlink(elsewhere, filepath.Join(dir, "db2")), os.Symlink("/nonexistent", filepath.Join(dir, "db/gone"))); err != nil {
		t.Fatal(err)
	}
	want := int64(1 + 2 + 4 + 8 + 16 + 32 + 64 + 128 + len(outside) + 1)
	for _, at := range []string{dir, link} {
		size, err := measureData(t.Context(), Facts{DataDir: at, DataHome: at, UndoDir: undo})
		if err != nil {
			t.Fatal(err)
		}
		if size.Bytes != want || len(size.Outside) != 1 || size.Outside[0] != outside {
			t.Errorf("%s: got %+v, want %d bytes and %q outside", at, size, want, outside)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, f := range map[string]func() (DataSize, error){
		"cancelled":   func() (DataSize, error) { return measureData(ctx, Facts{DataDir: dir}) },
		"unknown":     func() (DataSize, error) { return measureData(t.Context(), Facts{}) },
		"nonexistent": func() (DataSize, error) { return measureData(t.Context(), Facts{DataDir: dir + ".none"}) },
	} {
		if size, err := f(); err == nil || size.Files != 0 {
			t.Errorf("%s: got %+v, error %v, want nothing and an error", name, size, err)
		}
	}
}

func TestFromVariables(t *testing.T) {
	f := fromVariables(map[string]string{
		"version": "10.4.30-MariaDB-log", "datadir": "/data/", "innodb_log_group_home_dir": "./", "innodb_undo_directory": "../undo",
		"innodb_data_home_dir": "/home", "innodb_log_file_size": "100", "innodb_log_files_in_group": "2", "log_bin": "ON", "tmpdir": "/t1:/t2",
		"time_zone": "SYSTEM", "system_time_zone": "CET", "innodb_encrypt_tables": "FORCE", "server_id": "4294967295", "pid_file": "/run/pid",
	})
	want := "10.4.30 /data /data /undo /home 200 true /t1 CET true 4294967295 /run/pid -1"
	got := fmt.Sprint(f.Version, " ", f.DataDir, " ", f.RedoDir, " ", f.UndoDir, " ", f.DataHome, " ", f.RedoSize, " ", f.LogBin, " ",
		f.TmpDir, " ", f.TimeZone, " ", f.Encrypted, " ", f.ServerID, " ", f.PIDFile, " ", f.Tablespaces)
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestFindings runs single questions of a check on facts that a test server can't have.
func TestFindings(t *testing.T) {
	here := t.TempDir()
	for _, tt := range []struct {
		name   string
		facts  Facts
		ask    func(c *checker)
		level  string
		detail string
	}{
		{"not MariaDB", Facts{Version: version.Parse("8.0.36"), VersionText: "8.0.36", VersionComment: "MySQL Community"}, (*checker).checkVersions, LevelFail, "is not MariaDB"},
		{"no version", Facts{VersionText: "x"}, (*checker).checkVersions, LevelFail, "is not MariaDB"},
		{"redo of old servers", Facts{Version: version.Parse("10.6.1"), VersionText: "10.6.1-MariaDB"}, (*checker).checkVersions, LevelFail, "before MariaDB 10.8"},
		{"many tablespaces", Facts{Tablespaces: process.MostFiles}, (*checker).checkOpenFiles, LevelFail, "tablespaces"},
		{"small redo log", Facts{RedoSize: 96 << 20, Data: DataSize{Bytes: 100 << 30}}, (*checker).checkRedo, LevelWarn, "for 100 GiB of data"},
		{"small redo log, little data", Facts{RedoSize: 96 << 20, Data: DataSize{Bytes: 1 << 30}}, (*checker).checkRedo, LevelOK, "96 MiB"},
		{"no temporary directory", Facts{TmpDir: "\x00"}, (*checker).checkTmp, LevelWarn, "free space"},
		{"temporary directory", Facts{TmpDir: here}, (*checker).checkTmp, LevelOK, here},
		{"other zone", Facts{TimeZone: "XYZ"}, (*checker).checkZone, LevelOK, "XYZ on the server"},
		{"synced node", Facts{Galera: "Synced"}, (*checker).checkGalera, LevelOK, "synced"},
		{"donor", Facts{Galera: "Donor/Desynced"}, (*checker).checkGalera, LevelWarn, "Donor/Desynced"},
		{"replica", Facts{Replicas: []Replica{{Running: true, LagGood: true, Lag: time.Minute}}}, (*checker).checkReplicas, LevelOK, "1m0s behind"},
		{"replica, lag unknown", Facts{Replicas: []Replica{{Running: true}}}, (*checker).checkReplicas, LevelWarn, "lag unknown"},
		{"broken replica", Facts{Replicas: []Replica{{Error: "dup key"}}}, (*checker).checkReplicas, LevelWarn, "does not run: dup key"},
		{"data not measured", Facts{}, (*checker).dataSize, LevelWarn, "could not be measured"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &checker{facts: tt.facts, tool: version.Parse("10.11.19")}
			tt.ask(c)
			if len(c.findings) == 0 {
				t.Fatal("got no finding")
			}
			f := c.findings[len(c.findings)-1]
			if f.Level != tt.level || !strings.Contains(f.Detail, tt.detail) || tt.level == LevelFail && f.Hint == "" {
				t.Errorf("got %+v, want %s with %q", f, tt.level, tt.detail)
			}
		})
	}
}

func TestCheckpointLSN(t *testing.T) {
	modern, old := make([]byte, 12288), make([]byte, 12288)
	copy(modern, "Phys")
	binary.BigEndian.PutUint64(modern[4096:], 643691121)
	binary.BigEndian.PutUint64(modern[8192:], 643461776)
	binary.BigEndian.PutUint64(old[512+8:], 7)
	binary.BigEndian.PutUint64(old[1536+8:], 9)
	for _, tt := range []struct {
		name string
		file []byte
		want uint64
	}{{"10.8 and later", modern, 643691121}, {"before", old, 9}} {
		if got, err := checkpointLSN(bytes.NewReader(tt.file)); err != nil || got != tt.want {
			t.Errorf("%s: got %d, error %v, want %d", tt.name, got, err, tt.want)
		}
	}
	if _, err := checkpointLSN(bytes.NewReader(modern[:5000])); err == nil {
		t.Error("short file: got no error")
	}
}
