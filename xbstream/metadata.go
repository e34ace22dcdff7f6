package xbstream

import "strings"

// An Expect says what a stream must hold beyond being well-formed.
type Expect uint8

const (
	// ExpectBackup wants a whole backup: the files that the tool sends last (checkpoints, backup-my.cnf and info) must
	// have ended, in the names of MariaDB before or since 11.1 or of Percona.
	ExpectBackup Expect = iota
	// ExpectAny wants nothing more: any archive will do.
	ExpectAny
)

// metadata tells which of the closing metadata files have ended, one bit for each role.
type metadata uint8

const (
	metaCheckpoints metadata = 1 << iota
	metaConfig
	metaInfo
)

// ended notes that a file has ended. Files that the tool compressed or encrypted itself count under their own name.
func (m *metadata) ended(path string) {
	if len(path) > len("mariadb_backup_checkpoints.zst.xbcrypt") {
		return
	}
	for _, suffix := range []string{".xbcrypt", ".qp", ".lz4", ".zst"} {
		path = strings.TrimSuffix(path, suffix)
	}
	switch path {
	case "xtrabackup_checkpoints", "mariadb_backup_checkpoints":
		*m |= metaCheckpoints
	case "backup-my.cnf":
		*m |= metaConfig
	case "xtrabackup_info", "mariadb_backup_info":
		*m |= metaInfo
	}
}

// missing names the files that have not ended, "" if none.
func (m metadata) missing() string {
	var names []string
	if m&metaCheckpoints == 0 {
		names = append(names, "xtrabackup_checkpoints (mariadb_backup_checkpoints since 11.1)")
	}
	if m&metaConfig == 0 {
		names = append(names, "backup-my.cnf")
	}
	if m&metaInfo == 0 {
		names = append(names, "xtrabackup_info (mariadb_backup_info since 11.1)")
	}
	return strings.Join(names, ", ")
}
