package restore

import (
	"fmt"
	"strings"
)

// namesInStep is how many tables a step names.
const namesInStep = 10

// salvageSteps tells what the operator has to do about lost files when the rest was prepared. What it says was tried with
// servers and mariadb-backup of 10.11: the prepare leaves out missing tablespaces, the server starts and still knows their
// tables.
func salvageSteps(l *losses, list string) []string {
	tables := l.tables()
	var steps []string
	for _, s := range []struct {
		kind damageKind
		text string
	}{
		{lostSystem, "the server's own tables that are damaged: %s. If the server refuses to start on them, start it with " +
			"--skip-grant-tables --skip-networking; DROP TABLE each, run mariadb-upgrade --force, which makes them anew and empty, " +
			"then FLUSH PRIVILEGES and create the accounts that are missing"},
		{lostRows, "tables whose rows are lost: %s. The server still lists them; reading one gives error 1030 " +
			"(Tablespace is missing for a table). DROP TABLE frees the name, with SET foreign_key_checks=0 before it if other " +
			"tables refer to it; then load the table from elsewhere"},
		{lostPartition, "tables that lost partitions: %s. The table can't be read as a whole, each of its other partitions can: save " +
			"them with CREATE TABLE new AS SELECT * FROM old PARTITION (p0), then DROP TABLE old"},
		{lostOther, "tables of other engines whose rows are lost: %s. DROP TABLE frees the name; then load the table from elsewhere"},
		{lostDefinition, "views, or tables whose rows are there, whose definition is lost: %s. For a table, create one with the same " +
			"definition in another database and copy its .frm file (and .par file) to the place of the lost one; or DROP TABLE to free " +
			"the name"},
		{lostKeys, "tables whose rows are there and whose index file is lost: %s. REPAIR TABLE … USE_FRM makes it anew; " +
			"CHECK TABLE tells whether it did"},
		{lostWords, "parts of full-text indexes that are lost: %s. Searches in a table of that database may fail: ALTER TABLE … DROP KEY " +
			"and ADD FULLTEXT KEY make the index anew"},
		{lostExtra, "definitions (of triggers, databases or the like) or descriptions that are lost: %s. Make them again where they are needed"},
	} {
		if names := tables[s.kind]; len(names) > 0 {
			steps = append(steps, fmt.Sprintf(s.text, nameSome(names, list)))
		}
	}
	return steps
}

// nameSome names the first of many.
func nameSome(names []string, list string) string {
	if len(names) <= namesInStep {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more, see %s", strings.Join(names[:namesInStep], ", "), len(names)-namesInStep, list)
}
