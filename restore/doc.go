// Package restore turns a stream back into a data directory.
//
// [Run] restores a backup of a repository, or any stream, into a directory that a server starts on: it plans from the
// index which blocks and chunks are needed, decodes blocks on all cores, writes many files at once, prepares the
// result with mariadb-backup, hands it to its owner and tells what to do next. [Extract] only makes the files: it is
// what mbstream -x should be.
//
// Three things hold whatever the input is:
//
//   - Nothing outside of the target directory is touched: every access goes through [os.Root].
//   - A target that is not empty is refused before anything in it is touched.
//   - All work is done in the directory mbwrap-restore.unfinished inside of the target. Its content moves up into the
//     target only when everything is complete, prepared and on the disk, so that half a restore never looks like a data
//     directory. A restore that was interrupted goes on where it stopped when it is run again.
//
// # Damaged backups
//
// Without [Options.Salvage] any damage stops a restore. With it, everything that is proven intact is restored, and what is
// lost is listed in [Result] and in the target's mbwrap-lost.txt. A file of which any part is damaged is lost as a whole: none
// is put in place with a hole in it. Store and disk errors that may go away still stop it.
//
//   - While the files at the top of a data directory are intact (system tablespace, redo, undo, Aria's logs, checkpoints,
//     backup-my.cnf), the rest is prepared and becomes a data directory. The server still knows the tables that are lost;
//     [Result.Next] tells what to do about each kind.
//   - When one of those is lost, what there is goes into the target's mbwrap-salvaged/files, unprepared, with a README.txt.
//   - A backup whose index is lost too, and a stream that never had one, are followed up to the first damage. Behind it, from
//     the next volume on, files are kept that are proven to be whole. What else was in the damage nobody knows, so this goes
//     into mbwrap-salvaged as well, always.
//
// Of an intact backup a salvage makes what a restore makes.
//
// The package is not about what a backup is worth without restoring it; that is package verify.
package restore
