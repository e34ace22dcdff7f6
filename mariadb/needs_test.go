package mariadb_test

import (
	"testing"

	"github.com/mbwrap/mbwrap/mariadb"
)

func TestPrepareNeeds(t *testing.T) {
	for name, want := range map[string]bool{
		"ibdata1": true, "ibdata2": true, "undo001": true, "ib_logfile0": true, "aria_log_control": true,
		"aria_log.00000001": true, "backup-my.cnf": true, "xtrabackup_checkpoints": true, "mariadb_backup_checkpoints": true,
		"xtrabackup_logfile": true,
		"xtrabackup_info":    false, "mariadb_backup_binlog_info": false, "xtrabackup_slave_info": false,
		"ib_buffer_pool": false, "innodb_corrupted_pages": false, "shop/t.ibd": false, "mysql/global_priv.MAD": false,
		"shop/ibdata1": false,
	} {
		if got := mariadb.PrepareNeeds(name); got != want {
			t.Errorf("PrepareNeeds(%q): got %v, want %v", name, got, want)
		}
	}
}
