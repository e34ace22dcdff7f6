package gendata

import "fmt"

// Databases that Load makes.
const (
	sysbenchDB = "sbtest"
	tpccDB     = "tpcc"
	specialDB  = "special"
)

// sysbenchRow is what a row takes in a tablespace, its entry in the secondary index included, in bytes.
const sysbenchRow = 290

// sysbenchTables returns the tables of sysbench's oltp tests, of about size bytes as tablespaces.
func sysbenchTables(size int64) []table {
	const count = 4
	rows := max(1, int(size/count/sysbenchRow))
	tables := make([]table, count)
	for n := range tables {
		tables[n] = table{
			database: sysbenchDB,
			name:     fmt.Sprintf("sbtest%d", n+1),
			create: `(id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '',
				pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k (k)) ENGINE=InnoDB DEFAULT CHARSET=latin1`,
			rows: rows,
			row: func(e *row, i int) {
				e.int(i + 1)
				e.int(rows/2 + e.r.skewed(rows)/2)
				e.groups(10)
				e.groups(5)
			},
		}
	}
	return tables
}
