package mariadb

import "strings"

// PrepareNeeds tells whether the tool's --prepare can't do without a file of a backup, which is called name: what lies at
// the top of a data directory, but for what only describes the backup or speeds the server up. Measured with 10.11: it
// refuses to go on without ibdata1, without ib_logfile0, without either kind of Aria's log files and without
// backup-my.cnf, and does without tables.
func PrepareNeeds(name string) bool {
	if strings.Contains(name, "/") || name == "ib_buffer_pool" || name == "innodb_corrupted_pages" {
		return false
	}
	for _, prefix := range []string{"xtrabackup_", "mariadb_backup_"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return rest == "checkpoints" || rest == "logfile"
		}
	}
	return true
}
