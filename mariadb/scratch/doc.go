// Package scratch runs throwaway MariaDB servers: for tests, demonstrations and for the proof that a restored backup is
// worth something. It is the only package that starts a server.
//
// A [Server] reads no option file, listens on no network and dies with this process. One on Restored data is more
// careful, since what it holds is somebody else's:
//
//   - Nothing acts. There is no replica, whatever the data say, no event runs, no cluster is joined, nothing is reported
//     home. The grant tables are not read, nor those of plugins, of functions from libraries and of foreign servers.
//     Tables whose engine may reach out (FEDERATED, CONNECT, SPIDER, S3 and all that are not known) are never opened.
//   - Nothing outside the directory is touched. Links, files with a second name and devices are refused ([ErrOutside]);
//     InnoDB's links to tables elsewhere (.isl files) are removed, as the server would open what they name even if the
//     table lies here. Logs, temporary files and what statements may write go to a private directory that ends with the
//     server. The options that say so win over Args.
//   - Damage stays to be seen. Nothing is repaired unasked, and a directory whose system tablespace or whose server's
//     database is gone is refused ([ErrIncomplete]): a server would make new ones, and be empty, and well.
//   - Started by root, it runs as the directory's owner, or if that is root, as the account "mysql", to which the
//     directory then goes; as root only if that account is missing or can't get there. Data that several accounts own
//     can't be expected to work.
//
// The data change all the same: the server recovers, purges and writes logs. A directory that a server has run on is no
// longer what was restored.
//
// [Server.CheckTables] has the server check its tables, [Server.CountRows] counts their rows, and [Server.RunSQL] runs
// statements that must return what a file says, see [ParseSQL].
package scratch
