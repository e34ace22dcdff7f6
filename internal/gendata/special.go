package gendata

import (
	"context"
	"database/sql"
	"fmt"
)

// specialStatements make the special tables. Every name is qualified: statements may run on different connections. There is
// no generated column among them: the server's CHECKSUM TABLE of such a table changes while the data does not (seen with
// 10.11), so nothing could be compared.
func specialStatements() []string {
	const rows = ` SELECT seq, CONCAT('text ', MD5(seq)), seq * 7 % 1000 FROM special.seq_1_to_5000`
	const columns = ` (id INT NOT NULL, t VARCHAR(60) NOT NULL, n INT NOT NULL`
	plain := func(name, options string) []string {
		return []string{
			"CREATE TABLE special." + name + columns + ", PRIMARY KEY (id)) " + options,
			"INSERT INTO special." + name + rows,
		}
	}
	all := []string{
		"CREATE DATABASE special CHARACTER SET utf8mb4",
		"CREATE DATABASE empty_one",
		"CREATE DATABASE `odd-db #2 ü`",
	}
	for _, t := range [][2]string{
		{"aria_crash_safe", "ENGINE=Aria TRANSACTIONAL=1"},
		{"aria_plain", "ENGINE=Aria TRANSACTIONAL=0"},
		{"myisam_1", "ENGINE=MyISAM"},
		{"myisam_2", "ENGINE=MyISAM"},
		{"zipped", "ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8"},
		{"page_zipped", "ENGINE=InnoDB PAGE_COMPRESSED=1"},
		{"redundant", "ENGINE=InnoDB ROW_FORMAT=REDUNDANT"},
		{"history_kept", "ENGINE=InnoDB WITH SYSTEM VERSIONING"},
		{"parts", "ENGINE=InnoDB PARTITION BY HASH (id) PARTITIONS 4"},
		{"`odd name #1 ümläut`", "ENGINE=InnoDB"},
		{"empty_table", "ENGINE=InnoDB"},
	} {
		all = append(all, plain(t[0], t[1])...)
	}
	return append(all,
		"DELETE FROM special.empty_table",
		"CREATE TABLE special.merged"+columns+", KEY (id)) ENGINE=MERGE UNION=(special.myisam_1, special.myisam_2) INSERT_METHOD=LAST",
		"CREATE TABLE special.csv"+columns+") ENGINE=CSV",
		"INSERT INTO special.csv"+rows,
		"CREATE TABLE `odd-db #2 ü`.`100%`"+columns+", PRIMARY KEY (id)) ENGINE=InnoDB",
		"INSERT INTO `odd-db #2 ü`.`100%`"+rows,
		"CREATE TABLE special.searched (id INT PRIMARY KEY, body TEXT, FULLTEXT KEY (body)) ENGINE=InnoDB",
		"INSERT INTO special.searched SELECT seq, CONCAT('lorem ipsum number ', seq, ' ', MD5(seq)) FROM special.seq_1_to_2000",
		`CREATE TABLE special.child (id INT PRIMARY KEY, parent INT NOT NULL,
			CONSTRAINT of_parent FOREIGN KEY (parent) REFERENCES special.redundant (id) ON DELETE CASCADE) ENGINE=InnoDB`,
		"INSERT INTO special.child SELECT seq, seq % 5000 + 1 FROM special.seq_1_to_8000",
		"CREATE TABLE special.large (id INT PRIMARY KEY, body LONGBLOB) ENGINE=InnoDB",
		"INSERT INTO special.large SELECT seq, REPEAT(UNHEX(SHA2(seq, 256)), 20000) FROM special.seq_1_to_4",
		"CREATE TABLE special.audit (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(60)) ENGINE=InnoDB",
		`CREATE TRIGGER special.on_child AFTER INSERT ON special.child FOR EACH ROW
			INSERT INTO special.audit (what) VALUES (CONCAT('child ', NEW.id))`,
		"INSERT INTO special.child VALUES (9001, 1), (9002, 2)",
		"CREATE VIEW special.seen AS SELECT id, n FROM special.zipped WHERE n < 100",
		"CREATE PROCEDURE special.counted() SELECT COUNT(*) FROM special.zipped",
		"CREATE SEQUENCE special.numbers START WITH 100",
		"DO NEXTVAL(special.numbers)",
	)
}

// archiveStatements need a plugin that not every server has.
func archiveStatements() []string {
	return []string{
		"CREATE TABLE special.archived (id INT, t VARCHAR(60), n INT) ENGINE=ARCHIVE",
		"INSERT INTO special.archived SELECT seq, MD5(seq), seq FROM special.seq_1_to_5000",
	}
}

func loadSpecial(ctx context.Context, db *sql.DB, onTable func(string, int)) error {
	statements := specialStatements()
	if _, err := db.ExecContext(ctx, "INSTALL SONAME 'ha_archive'"); err == nil {
		statements = append(statements, archiveStatements()...)
	}
	if err := exec(ctx, db, statements); err != nil {
		return fmt.Errorf("make special tables: %w", err)
	}
	if onTable != nil {
		onTable(specialDB+".*", 0)
	}
	return nil
}

// Change alters what Load made, in every way that a bad day can: rows updated, deleted and added, a table emptied, one
// dropped, one altered, one renamed. It returns what it did, in words, for a reader. It needs all of Load's options.
func Change(ctx context.Context, db *sql.DB) ([]string, error) {
	steps := []struct{ words, statement string }{
		{"update every tenth row of sbtest.sbtest1", "UPDATE sbtest.sbtest1 SET k = k + 1, c = REVERSE(c) WHERE id % 10 = 0"},
		{"delete 5 % of the orders in tpcc.orders", "DELETE FROM tpcc.orders WHERE o_id % 20 = 3"},
		{"drop table sbtest.sbtest4", "DROP TABLE sbtest.sbtest4"},
		{"empty table tpcc.history", "TRUNCATE TABLE tpcc.history"},
		{"add a column to tpcc.item", "ALTER TABLE tpcc.item ADD COLUMN colour CHAR(8) DEFAULT 'grey' AFTER name"},
		{"rename special.aria_plain", "RENAME TABLE special.aria_plain TO special.aria_renamed"},
		{"insert into special.myisam_1", "INSERT INTO special.myisam_1 SELECT seq, 'new', seq FROM special.seq_6001_to_7000"},
		{"drop database empty_one", "DROP DATABASE empty_one"},
	}
	var done []string
	for _, s := range steps {
		if _, err := db.ExecContext(ctx, s.statement); err != nil {
			return done, fmt.Errorf("%s: %w", s.words, err)
		}
		done = append(done, s.words)
	}
	return done, nil
}
