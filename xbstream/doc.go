// Package xbstream reads, checks and writes the stream format of mariadb-backup (--stream=mbstream, formerly xbstream)
// and of Percona XtraBackup. It knows the stream and nothing else: no compression, no encryption, no files on disk.
//
// A stream is a plain sequence of chunks. It has no header, no index and no end mark: the end of the input at the border
// of two chunks is a legal end, which is why the tools of the trade take a cut stream for a whole one. Each chunk names a
// file by its path and does one thing to it:
//
//   - payload: the next bytes of the file, with their place and CRC-32;
//   - end: the file is complete. A file that never had a payload is an empty file;
//   - seek: the next payload of the file goes elsewhere;
//   - rename and remove: done to files that have ended earlier;
//   - sparse: Percona's payload with a map of holes.
//
// All integers are little-endian. Chunks of different files interleave; the chunks of one file are in order.
//
// # Three ways to use it
//
// [Checker] is an io.Writer that is handed the stream in pieces of any size, on its way to somewhere else. It never copies
// payload, never holds a chunk (chunks of 64 MiB and of 1 GiB exist), and runs about as fast as the CRC-32 it computes.
// [Reader] is handed a stream and gives chunk after chunk, in the manner of archive/tar. [Writer] makes a stream.
// All three enforce the same rules:
//
//   - The magic, type, flags, lengths and path of every chunk head are legal; see [CheckPath].
//   - The CRC-32 of every payload is right. Heads have no checksum: damage there is found only if it breaks another rule.
//   - The payloads of a file are contiguous from 0, but for seeks.
//   - A path occurs once. A payload that carries [FlagRewrite] starts a new version of a file that has ended; a removed or
//     renamed path is free again. Anything else that reopens an ended path is a repeated path, as in two streams that were
//     concatenated.
//   - A lone end chunk on an ended path is a file rewritten as empty, which cannot carry the flag since MariaDB puts that
//     on payloads only. MariaDB sends the files of one table one after the other and always has a payload for one of them,
//     so such an end is accepted only if a chunk with the flag opens a file later, before any payload or seek without the
//     flag opens one and before the stream ends.
//   - Rename and remove touch only files that have ended; one that names an open file is an error. A source that does
//     not exist is no error: MariaDB sends them for tables that came and went during the backup. A rename replaces its
//     target. A remove of a directory removes all below it; a trailing '*' removes the files of that directory whose
//     names start so.
//   - Every file that was opened ends before the stream does, and a stream of nothing is no stream.
//
// An unknown type is an error, unless the chunk carries [FlagIgnorable]: such a chunk has the layout of a payload and is
// skipped, checked and counted.
//
// The wire type 'S' means seek to MariaDB and sparse to Percona; they are told apart by what follows the path, see
// [TypeSparse].
package xbstream
