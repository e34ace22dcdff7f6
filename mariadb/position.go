package mariadb

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mbwrap/mbwrap/mariadb/internal/process"
)

// Position is what a backup says of itself: where in the redo log and in the binary log it stands, and who made it.
// LSNs are InnoDB log sequence numbers (bytes since the server was made).
type Position struct {
	BackupType  string // "full-backuped", "incremental", or "log-applied" once prepared
	FromLSN     uint64 // 0 for a full backup
	ToLSN       uint64 // the checkpoint; the next incremental starts here
	LastLSN     uint64 // end of the copied redo log, at least ToLSN
	Incremental bool
	Partial     bool // made with a table or database filter
	Compressed  bool // per-file compression inside the stream

	// Binlog is the server's own binary log position; all empty if its binary log was off.
	Binlog struct {
		File string
		Pos  uint64
		GTID string
	}
	Replica string // the CHANGE MASTER text of a replica made with --slave-info
	Galera  string // "uuid:seqno domain" of a Galera node made with --galera-info

	UUID          string
	Name          string // the value of --history
	Format        string // "mbstream" or "xbstream"
	ToolName      string
	ToolVersion   string
	ServerVersion string
	PageSize      int // bytes, 0 if unknown
	// Start and End are in the local time of the process that made the backup: the tool writes no zone. They are read
	// in this process's zone, right as long as both have the same. Zero if absent or unreadable.
	Start, End time.Time

	// CorruptPages is the tool's list of corrupt pages it let through (--log-innodb-page-corruption), else empty.
	CorruptPages string

	// Checkpoints, Info and Config hold every key of the checkpoints file, the info file and backup-my.cnf, those
	// above and those this version does not know.
	Checkpoints, Info, Config map[string]string
}

// CheckLSN checks the order of the LSNs and that the backup starts at from: 0 for a full backup, the parent's ToLSN for
// an incremental one. The tool itself accepts a start in the future and ends well; such a backup is useless.
func (p Position) CheckLSN(from uint64) error {
	switch {
	case p.FromLSN != from:
		return fmt.Errorf("backup starts at LSN %d, want %d", p.FromLSN, from)
	case p.Incremental != (from != 0):
		return fmt.Errorf("backup type is %q, but it starts at LSN %d", p.BackupType, p.FromLSN)
	case p.FromLSN > p.ToLSN:
		return fmt.Errorf("backup starts at LSN %d, after its own checkpoint %d: that start was never reached by this server", p.FromLSN, p.ToLSN)
	case p.ToLSN > p.LastLSN:
		return fmt.Errorf("copied redo log ends at LSN %d, before the checkpoint %d", p.LastLSN, p.ToLSN)
	}
	return nil
}

// maxMetadata is the largest metadata file taken, in bytes. Real ones have a few hundred; the info file repeats the
// tool's whole command line.
const maxMetadata = 1 << 20

// ServerArgs returns the server options without which a server does not understand the restored files: page size, the
// names of the system tablespace's files, the number of undo tablespaces, the kind of checksums.
func (p Position) ServerArgs() []string {
	var args []string
	for _, o := range []struct{ key, option string }{
		{"innodb_page_size", "--innodb_page_size"}, {"innodb_data_file_path", "--innodb_data_file_path"},
		{"innodb_undo_tablespaces", "--innodb_undo_tablespaces"},
		{"innodb_checksum_algorithm", "--loose-innodb_checksum_algorithm"}, // not known to every version
	} {
		if value := p.Config[o.key]; value != "" {
			args = append(args, o.option+"="+value)
		}
	}
	return args
}

// timeLayout is how the info file writes start_time and end_time.
const timeLayout = "2006-01-02 15:04:05"

// keyValues reads "key = value" lines. Lines without "=", section heads and comments are skipped; the first value of
// a key stands.
func keyValues(text []byte) map[string]string {
	m := make(map[string]string)
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, maxMetadata+1)
	for s.Scan() {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' || line[0] == '[' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			continue
		}
		if _, taken := m[key]; !taken {
			m[key] = strings.TrimSpace(value)
		}
	}
	return m
}

// setCheckpoints fills in the fields of the checkpoints file.
func (p *Position) setCheckpoints(text []byte) error {
	p.Checkpoints = keyValues(text)
	p.BackupType = p.Checkpoints["backup_type"]
	if p.BackupType == "" {
		return fmt.Errorf("backup_type is missing")
	}
	p.Incremental = p.BackupType == "incremental"
	for _, f := range []struct {
		key string
		to  *uint64
	}{{"from_lsn", &p.FromLSN}, {"to_lsn", &p.ToLSN}, {"last_lsn", &p.LastLSN}} {
		value, ok := p.Checkpoints[f.key]
		if !ok {
			return fmt.Errorf("%s is missing", f.key)
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return fmt.Errorf("%s is %q, want a number", f.key, value)
		}
		*f.to = n
	}
	return nil
}

// setInfo fills in the fields of the info file. None of them decides whether the backup is whole, so what cannot be
// read stays empty; the text is kept in p.Info.
func (p *Position) setInfo(text []byte) {
	m := keyValues(text)
	p.Info = m
	p.UUID, p.Name, p.Format = m["uuid"], m["name"], m["format"]
	p.ToolName, p.ToolVersion, p.ServerVersion = m["tool_name"], m["tool_version"], m["server_version"]
	p.Partial = m["partial"] == "Y"
	p.Compressed = m["compressed"] != "" && m["compressed"] != "N"
	p.Start, _ = time.ParseInLocation(timeLayout, m["start_time"], time.Local)
	p.End, _ = time.ParseInLocation(timeLayout, m["end_time"], time.Local)
	if p.Binlog.File == "" {
		p.setBinlogPos(m["binlog_pos"])
	}
}

// setBinlogPos reads the info file's form: filename 'f', position '1', GTID of the last change '0-1-2'.
func (p *Position) setBinlogPos(s string) {
	quoted := func(label string) string {
		_, rest, ok := strings.Cut(s, label+" '")
		if !ok {
			return ""
		}
		value, _, _ := strings.Cut(rest, "'")
		return value
	}
	p.Binlog.File, p.Binlog.GTID = quoted("filename"), quoted("GTID of the last change")
	p.Binlog.Pos, _ = strconv.ParseUint(quoted("position"), 10, 64)
}

// setBinlogInfo reads the binlog_info file: file, position and, if the server has it, GTID, separated by tabs.
func (p *Position) setBinlogInfo(text []byte) error {
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Split(strings.TrimRight(line, "\r"), "\t")
	if len(fields) < 2 {
		return fmt.Errorf("got %q, want file and position separated by a tab", process.Clip(line))
	}
	pos, err := strconv.ParseUint(strings.TrimSpace(fields[1]), 10, 64)
	if err != nil {
		return fmt.Errorf("position is %q, want a number", process.Clip(fields[1]))
	}
	p.Binlog.File, p.Binlog.Pos = fields[0], pos
	if len(fields) > 2 {
		p.Binlog.GTID = strings.TrimSpace(fields[2])
	}
	return nil
}
