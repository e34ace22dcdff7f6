package tables_test

import (
	"testing"

	"github.com/mbwrap/mbwrap/mariadb/internal/tables"
)

// TestKindOf: only engines that are known to stay in the data directory are opened.
func TestKindOf(t *testing.T) {
	for kind, engines := range map[tables.Kind][]string{
		tables.Local:   {"InnoDB", "MyISAM", "Aria", "MRG_MyISAM", "CSV", "ARCHIVE", "ROCKSDB"},
		tables.Empty:   {"MEMORY", "BLACKHOLE"},
		tables.Foreign: {"FEDERATED", "CONNECT", "SPIDER", "S3", "SPHINX", "OQGRAPH", "Columnstore", "TOMORROW", ""},
	} {
		for _, engine := range engines {
			if got := tables.KindOf(engine); got != kind {
				t.Errorf("%q: got %v, want %v", engine, got, kind)
			}
		}
	}
}

func TestTable(t *testing.T) {
	for _, tt := range []struct {
		table            tables.Table
		sql              string
		system, sequence bool
	}{
		{tables.Table{Schema: "a`b", Name: "c d"}, "`a``b`.`c d`", false, false},
		{tables.Table{Schema: "mysql", Name: "user"}, "`mysql`.`user`", true, false},
		{tables.Table{Schema: "sys", Name: "sys_config"}, "`sys`.`sys_config`", true, false},
		{tables.Table{Schema: "d", Name: "s", Type: "SEQUENCE"}, "`d`.`s`", false, true},
	} {
		if got := tt.table.SQL(); got != tt.sql || tt.table.IsSystem() != tt.system || tt.table.IsSequence() != tt.sequence {
			t.Errorf("got %s, %v, %v, want %s, %v, %v", got, tt.table.IsSystem(), tt.table.IsSequence(), tt.sql, tt.system, tt.sequence)
		}
	}
}
