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
// The package is not about what a backup is worth without restoring it; that is package verify.
package restore
