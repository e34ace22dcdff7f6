package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mbwrap/mbwrap/mariadb/version"
)

// Facts is what is true of a server as far as backups care. Sizes are in bytes, paths absolute.
type Facts struct {
	Version        version.Number
	VersionText    string // such as "10.11.19-MariaDB-0+deb12u1-log"
	VersionComment string
	Hostname       string
	ServerID       uint64
	ServerUID      string // a hash the server makes of its host; "" in versions that have none
	Started        time.Time

	DataDir, Socket, PIDFile, TmpDir string
	// DataHome, RedoDir, UndoDir and AriaLogDir are DataDir unless the server is configured otherwise.
	DataHome, RedoDir, UndoDir, AriaLogDir string
	Port                                   int

	TimeZone       string // the zone the server works in
	LogBin         bool
	BinlogFile     string // with BinlogPos and GTID: now, not at a backup's moment
	BinlogPos      uint64
	GTID           string
	RedoSize       int64
	OpenFilesLimit int64
	Encrypted      bool   // tables or redo log are encrypted at rest
	Galera         string // the node's state, such as "Synced"; "" if it is no node
	Replicas       []Replica

	// Tablespaces and TablespaceBytes are InnoDB's own count; -1 if the user may not see it.
	Tablespaces     int64
	TablespaceBytes int64
	// Data is what lies in the data directory, seen from here; zero if it can't be read.
	Data DataSize
}

// Replica is one replication connection of a server that is a replica.
type Replica struct {
	Name    string // of the connection, "" for the default one
	Source  string // host:port
	Running bool   // both threads
	Lag     time.Duration
	LagGood bool // Lag is known
	Error   string
}

// Facts asks the server what it is and looks at its data directory, if that is visible from here. What this user may
// not see stays empty; the error tells that the server could not be asked at all.
func (s *Conn) Facts(ctx context.Context) (Facts, error) {
	v, err := s.pairs(ctx, "SHOW GLOBAL VARIABLES")
	if err != nil {
		return Facts{}, fmt.Errorf("ask the server for its variables: %w", err)
	}
	f := fromVariables(v)
	if status, err := s.pairs(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Uptime', 'wsrep_local_state_comment')"); err == nil {
		uptime, _ := strconv.Atoi(status["uptime"])
		f.Started = time.Now().Add(-time.Duration(uptime) * time.Second)
		if on(v["wsrep_on"]) {
			f.Galera = prefer(status["wsrep_local_state_comment"], "unknown")
		}
	}
	s.binlog(ctx, &f)
	f.Replicas = s.replicas(ctx)
	s.tablespaces(ctx, &f)
	f.Data, _ = measureData(ctx, f) // not being able to look is told by the zero value
	if err := context.Cause(ctx); err != nil {
		return f, err
	}
	return f, nil
}

// fromVariables takes from the server's variables what they tell.
func fromVariables(v map[string]string) Facts {
	number := func(name string) int64 { n, _ := strconv.ParseInt(v[name], 10, 64); return n }
	dir := strings.TrimRight(v["datadir"], "/")
	at := func(name string) string { return absolute(dir, v[name]) }
	f := Facts{
		Version: version.Parse(v["version"]), VersionText: v["version"], VersionComment: v["version_comment"],
		Hostname: v["hostname"], ServerID: uint64(number("server_id")), ServerUID: v["server_uid"],
		DataDir: dir, Socket: at("socket"), PIDFile: at("pid_file"), TmpDir: firstOf(v["tmpdir"]),
		DataHome: at("innodb_data_home_dir"), RedoDir: at("innodb_log_group_home_dir"),
		UndoDir: at("innodb_undo_directory"), AriaLogDir: at("aria_log_dir_path"), Port: int(number("port")),
		TimeZone: v["time_zone"], LogBin: on(v["log_bin"]), GTID: v["gtid_binlog_pos"],
		RedoSize:       number("innodb_log_file_size") * max(1, number("innodb_log_files_in_group")),
		OpenFilesLimit: number("open_files_limit"), Tablespaces: -1, TablespaceBytes: -1,
		Encrypted: on(v["innodb_encrypt_tables"]) || on(v["innodb_encrypt_log"]) || v["innodb_encrypt_tables"] == "FORCE",
	}
	if f.TimeZone == "SYSTEM" {
		f.TimeZone = v["system_time_zone"]
	}
	return f
}

func on(value string) bool { return strings.EqualFold(value, "ON") || value == "1" }

// firstOf returns the first of several directories separated by colons.
func firstOf(list string) string {
	first, _, _ := strings.Cut(list, ":")
	return first
}

// absolute resolves a path of the server's, which is relative to its data directory; "" is that directory.
func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// binlog asks for the current binary log position.
func (s *Conn) binlog(ctx context.Context, f *Facts) {
	if !f.LogBin {
		return
	}
	rows, err := s.records(ctx, "SHOW MASTER STATUS")
	if err == nil && len(rows) == 1 {
		f.BinlogFile = rows[0]["File"]
		f.BinlogPos, _ = strconv.ParseUint(rows[0]["Position"], 10, 64)
	}
}

// replicas asks for the state of every replication connection.
func (s *Conn) replicas(ctx context.Context) []Replica {
	rows, err := s.records(ctx, "SHOW ALL SLAVES STATUS")
	if err != nil {
		return nil
	}
	var all []Replica
	for _, r := range rows {
		one := Replica{
			Name: r["Connection_name"], Source: r["Master_Host"] + ":" + r["Master_Port"],
			Running: r["Slave_IO_Running"] == "Yes" && r["Slave_SQL_Running"] == "Yes",
			Error:   prefer(r["Last_SQL_Error"], r["Last_IO_Error"]),
		}
		if seconds, err := strconv.Atoi(r["Seconds_Behind_Master"]); err == nil {
			one.Lag, one.LagGood = time.Duration(seconds)*time.Second, true
		}
		all = append(all, one)
	}
	return all
}

// tablespaces asks InnoDB how many files it has and how large they are. information_schema.TABLES would tell, too, but
// opens every table to do so.
func (s *Conn) tablespaces(ctx context.Context, f *Facts) {
	rows, err := s.records(ctx, `SELECT COUNT(*) AS n, COALESCE(SUM(FILE_SIZE), 0) AS bytes
		FROM information_schema.INNODB_SYS_TABLESPACES WHERE NAME <> 'innodb_temporary'`)
	if err != nil || len(rows) != 1 {
		return
	}
	n, err1 := strconv.ParseInt(rows[0]["n"], 10, 64)
	bytes, err2 := strconv.ParseInt(rows[0]["bytes"], 10, 64)
	if errors.Join(err1, err2) == nil {
		f.Tablespaces, f.TablespaceBytes = n, bytes
	}
}
