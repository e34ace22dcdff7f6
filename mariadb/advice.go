package mariadb

import (
	"fmt"
	"strings"

	"github.com/mbwrap/mbwrap/mariadb/version"
)

// known is a message of the tool, or of the server through it, that can be put into plain words.
type known struct {
	find  []string // all of these are in the message
	cause string
	hint  string
	// defect names a bug of the tool that gives this message without the cause, in the versions of between.
	defect  string
	between []versionRange
	// minor messages accompany others and do not explain a failure by themselves.
	minor bool
}

// versionRange holds the versions from the first on, before the second.
type versionRange struct{ from, before version.Number }

// explain returns cause and hint for a tool of version v.
func (k *known) explain(v version.Number) (cause, hint string) {
	for _, r := range k.between {
		if v.Compare(r.from) >= 0 && v.Compare(r.before) < 0 {
			return k.cause, fmt.Sprintf("%s; version %s also says so without that cause (%s): update it", k.hint, v, k.defect)
		}
	}
	return k.cause, k.hint
}

// lookUp finds the first known message that text contains, nil if there is none.
func lookUp(text string) *known {
	for i := range knownMessages {
		k := &knownMessages[i]
		if containsAll(text, k.find) {
			return k
		}
	}
	return nil
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// knownMessages is read from the top: the more exact stand before the more general.
var knownMessages = []known{
	{
		find:  []string{"Was only able to copy log from"},
		cause: "the server wrote redo log faster than it was copied, and overwrote what was still needed",
		hint: "enlarge innodb_log_file_size on the server (SET GLOBAL from 10.9 on), take the backup at a quieter time, or see " +
			"whether the destination is too slow",
		defect: "MDEV-36159, MDEV-39468",
		between: []versionRange{
			{version.Parse("10.11.10"), version.Parse("10.11.19")}, {version.Parse("11.4.4"), version.Parse("11.4.13")},
			{version.Parse("11.8.0"), version.Parse("11.8.9")}, {version.Parse("12.0.0"), version.Parse("12.3.3")},
		},
	},
	{
		find:  []string{"cannot open file", "/db.opt"},
		cause: "a database was made and dropped while the backup ran, and the tool then gave up following changes of tables",
		hint:  "take the backup again, at a time when no databases come and go",
	},
	{
		find:  []string{"Error ", " on file ", " open during "},
		cause: "a table that is not InnoDB's was renamed or dropped before it could be copied",
		hint:  "take the backup again; keep RENAME and DROP of Aria and MyISAM tables away from its time",
	},
	{
		find:  []string{"cannot process redo log before MariaDB 10.8"},
		cause: "the tool is newer than the server and can't read its redo log",
		hint:  "use the mariadb-backup of the server's own version (its package, or --tool PATH)",
	},
	{
		find:  []string{"Unsupported redo log format"},
		cause: "the tool is older than the server and does not know its redo log",
		hint:  "use the mariadb-backup of the server's own version (its package, or --tool PATH)",
	},
	{
		find:  []string{"unknown redo log format"},
		cause: "the tool does not know the server's redo log: their versions differ",
		hint:  "use the mariadb-backup of the server's own version (its package, or --tool PATH)",
	},
	{
		find:  []string{"Unsupported server version"},
		cause: "the tool does not support this server's version",
		hint:  "use the mariadb-backup of the server's own version (its package, or --tool PATH)",
	},
	{
		find:  []string{"innodb_log_archive"},
		cause: "the server archives its redo log and has no ib_logfile0, which mariadb-backup can't back up",
		hint:  "set innodb_log_archive=OFF on the server",
	},
	{
		find:  []string{"ib_logfile0", "No such file"},
		cause: "the redo log is not where the server says: its data directory is not visible from here",
		hint:  "run on the server's own host (or in its container) and see innodb_log_group_home_dir",
	},
	{
		find:  []string{"ib_logfile0", "not found"},
		cause: "the redo log is not where the server says: its data directory is not visible from here",
		hint:  "run on the server's own host (or in its container) and see innodb_log_group_home_dir",
	},
	{
		find:  []string{"Too many open files"},
		cause: "the limit of open files is too low: the tool keeps every tablespace open",
		hint:  "raise it (ulimit -n, LimitNOFILE= in the service) above the number of tables and partitions",
	},
	{
		find:  []string{"errno: 24"},
		cause: "the limit of open files is too low: the tool keeps every tablespace open",
		hint:  "raise it (ulimit -n, LimitNOFILE= in the service) above the number of tables and partitions",
	},
	{
		find:  []string{"missing required privilege"},
		cause: "the database user lacks a privilege",
		hint:  "GRANT RELOAD, PROCESS, LOCK TABLES, BINLOG MONITOR ON *.* to it, and REPLICA MONITOR for --slave-info",
	},
	{
		find:  []string{"Access denied for user"},
		cause: "the server does not let this user in",
		hint:  "see user and password (option file, --user), and that the user may connect from this host",
	},
	{
		find:  []string{"Access denied; you need"},
		cause: "the database user lacks a privilege",
		hint:  "GRANT RELOAD, PROCESS, LOCK TABLES, BINLOG MONITOR ON *.* to it, and REPLICA MONITOR for --slave-info",
	},
	{
		find:  []string{"Can't connect to local server through socket"},
		cause: "there is no server at this socket",
		hint:  "is the server running? give its socket with --socket PATH",
	},
	{
		find:  []string{"Can't connect to server on"},
		cause: "there is no server at this address",
		hint:  "is the server running? see --host and --port; on the server's own host the socket needs neither",
	},
	{
		find:  []string{"Can't change dir to"},
		cause: "the server's data directory can't be entered from here",
		hint:  "run as root or as the server's user, on the server's own host",
	},
	{
		find:  []string{"Permission denied"},
		cause: "a file of the server can't be read",
		hint:  "run as root or as the server's user",
	},
	{
		find:  []string{"different innodb_undo_tablespaces"},
		cause: "the LSN from which the incremental should start is older than this server's data, or of another server",
		hint:  "take a full backup",
	},
	{
		find:  []string{"Check 'to_lsn' of the target"},
		cause: "an incremental does not follow on what was prepared before it",
		hint:  "apply the incrementals of a chain in their order, none left out and none twice",
	},
	{
		find:  []string{"needs a prepared target"},
		cause: "the base was not prepared before an incremental was applied to it",
		hint:  "prepare the base first",
	},
	{
		find:  []string{"corrupted innodb pages are found"},
		cause: "the server's data has corrupt pages; they were copied as they are",
		hint:  "find the tables in innodb_corrupted_pages and rebuild them on the server, then take a new backup",
	},
	{
		find:  []string{"page corruption detected", "retrying"},
		cause: "a page was being written while it was read",
		hint:  "nothing to do: it is read again",
		minor: true,
	},
	{
		find:  []string{"failed to read page after"},
		cause: "a page of the server's data is corrupt on disk",
		hint:  "run CHECK TABLE on the table of the file that was being copied, and look at the disk",
	},
	{
		find:  []string{"Broken pipe"},
		cause: "whoever took the backup's bytes went away",
		hint:  "look for the first error of the destination",
	},
	{
		find:  []string{"No space left on device"},
		cause: "a file system is full",
		hint:  "make room where the bytes go, and in the tool's temporary directory",
	},
	{
		find:  []string{"Disk quota exceeded"},
		cause: "a disk quota is used up",
		hint:  "make room where the bytes go, and in the tool's temporary directory",
	},
	{
		find:  []string{"encryption plugin"},
		cause: "the data is encrypted and the key plugin could not be used",
		hint:  "the key file or service named in the server's configuration must be reachable for the tool, too",
	},
	{
		find:  []string{"Decryption failed"},
		cause: "the data is encrypted and the keys at hand are not its keys",
		hint:  "the key file or service named in the server's configuration must be reachable for the tool, too",
	},
	{
		find:  []string{"Cannot allocate memory for the buffer pool"},
		cause: "there is not enough memory",
		hint:  "give less with --use-memory",
	},
	{
		find:  []string{"We assume the table was dropped"},
		cause: "a table vanished while it was being copied",
		hint:  "nothing to do if it was dropped; else see that the tool may read all of the data directory",
		minor: true,
	},
	{
		find:  []string{"Lost connection to"},
		cause: "the server ended the connection",
		hint:  "see the server's log: was it restarted, or did it crash?",
	},
	{
		find:  []string{"server has gone away"},
		cause: "the server ended the connection",
		hint:  "see the server's log: was it restarted, or did it crash? see wait_timeout for long backups",
	},
	{
		find:  []string{"Lock wait timeout exceeded"},
		cause: "a statement that runs on the server did not let the backup have its lock in time",
		hint:  "look for long queries and open transactions (SHOW PROCESSLIST)",
	},
	{
		find:  []string{"unknown option"},
		cause: "the tool does not know an option",
		hint:  "see the options given after -- and those in the option files' group [mariadb-backup]",
	},
	{
		find:  []string{"unknown variable"},
		cause: "the tool does not know an option",
		hint:  "see the options given after -- and those in the option files' group [mariadb-backup]",
	},
	{
		find:  []string{"ambiguous option"},
		cause: "an option is abbreviated too much",
		hint:  "write it out",
	},
}
