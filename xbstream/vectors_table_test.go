package xbstream_test

import (
	"strings"

	"github.com/mbwrap/mbwrap/xbstream"
)

// A vector is a stream with one thing about it, and what must come of it.
type vector struct {
	name   string
	about  string
	kind   xbstream.Kind // 0: good
	offset int64         // of the chunk at fault
	path   string        // of the chunk at fault
	backup bool          // check as a whole backup
	stream []byte
}

const (
	long    = "db/this_is_a_table.ibd"
	ibdHead = int64(14 + len(long) + 20)
)

// vectors are kept as files in testdata/vectors, which are what the tests read; run with -update to write them.
func vectors() []vector {
	return concat(goodVectors(), goodLaterVectors(), cutVectors(), headVectors(), pathVectors(), orderVectors(), renameVectors(), closingVectors())
}

func concat(lists ...[]vector) []vector {
	var all []vector
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func goodVectors() []vector {
	return []vector{
		{name: "ok-payload-end", about: "a file of one chunk", stream: file("b", "b")},
		{name: "ok-empty-file", about: "an end alone is an empty file", stream: end("empty")},
		{name: "ok-mbstream-c", about: "what mbstream -c b empty db/a.txt writes for the first two", stream: join(file("b", "b"), end("empty"))},
		{name: "ok-empty-payload", about: "a payload of no bytes", stream: join(payload("a", 0, ""), payload("a", 0, "x"), end("a"))},
		{name: "ok-two-payloads", about: "payloads are contiguous", stream: join(payload("a", 0, "one"), payload("a", 3, "two"), end("a"))},
		{name: "ok-interleaved", about: "files interleave", stream: join(payload("a", 0, "1"), payload("b", 0, "2"), payload("a", 1, "3"), end("b"), end("a"))},
		{name: "ok-mixed", about: "every chunk MariaDB writes", backup: true, stream: mixed()},
		{name: "ok-backup-names", about: "closing files before 11.1", backup: true, stream: join(file("a", "x"), closing())},
		{name: "ok-backup-names-111", about: "closing files since 11.1", backup: true,
			stream: join(file("mariadb_backup_checkpoints", "x"), file("backup-my.cnf", "x"), file("mariadb_backup_info", "x"))},
		{name: "ok-backup-names-compressed", about: "closing files that the tool compressed and encrypted", backup: true,
			stream: join(file("xtrabackup_checkpoints", "x"), file("backup-my.cnf.zst.xbcrypt", "x"), file("xtrabackup_info.qp", "x"))},
		{name: "ok-path-511", about: "the longest path", stream: file(strings.Repeat("a/", 255)+"b", "x")},
		{name: "ok-path-bytes", about: "paths are bytes: partitions, encoded names, not UTF-8", stream: file("db/we@0020ird@0023t@0kb#P#p0\xff\xfe.ibd", "x")},
		{name: "ok-path-dots", about: "dots are harmless in a name", stream: file("..a/b../...", "x")},
		{name: "ok-path-three-levels", about: "mbstream makes one level only and stops with status 0", stream: file("d/e/f", "x")},
		{name: "ok-path-star-inside", about: "a star inside a name", stream: file("a*b", "x")},
		{name: "ok-ignorable-unknown", about: "an unknown type that may be skipped has a payload's layout; mbstream writes it to the file",
			stream: join(payload("a", 0, "x"), unknown(1, 'X', "a", "future"), end("a"))},
		{name: "ok-ignorable-known", about: "the flag means nothing on a type we know", stream: join(payloadFlags(1, "a", 0, "x"), end("a"))},
	}
}

func unknown(flags, typ byte, path, data string) []byte {
	b := payloadFlags(flags, path, 0, data)
	b[9] = typ
	return b
}

func goodLaterVectors() []vector {
	return []vector{
		{name: "ok-seek", about: "the Aria log's header is written again", stream: join(payload("aria_log.00000001", 0, strings.Repeat("x", 50)), seek("aria_log.00000001", 37), payload("aria_log.00000001", 37, "max lsn"), end("aria_log.00000001"))},
		{name: "ok-seek-opens", about: "a seek opens a file", stream: join(seek("a", 8), payload("a", 8, "x"), end("a"))},
		{name: "ok-seek-last", about: "nothing after the seek", stream: join(seek("a", 8), end("a"))},
		{name: "ok-sparse", about: "holes count for the next offset", stream: join(sparse("t.ibd", 0, "datamore", 4, 4, 8, 4), payload("t.ibd", 20, "x"), end("t.ibd"))},
		{name: "ok-sparse-no-map", about: "a sparse chunk without entries and payload", stream: join(sparse("t.ibd", 0, ""), end("t.ibd"))},
		{name: "ok-rename", about: "a file that has ended", stream: join(file("a", "x"), rename("a", "b"))},
		{name: "ok-rename-frees", about: "the old path is free again", stream: join(file("a", "x"), rename("a", "b"), file("a", "y"))},
		{name: "ok-rename-missing", about: "a source that came and went during the backup", stream: join(file("a", "x"), rename("db/gone.MYD", "db/too.MYD"))},
		{name: "ok-rename-replaces", about: "the target is replaced", stream: join(file("a", "x"), file("b", "y"), rename("a", "b"))},
		{name: "ok-rename-swap", about: "three renames swap two tables", stream: join(file("a", "x"), file("b", "y"), rename("a", "t"), rename("b", "a"), rename("t", "b"))},
		{name: "ok-rename-then-end", about: "mbstream compares the end's checksum with that of the chunk before and refuses this",
			stream: join(file("a", "x"), rename("a", "b"), end("db/new.MYD"))},
		{name: "ok-remove", about: "the path is free again", stream: join(file("a", "x"), remove("a"), file("a", "y"))},
		{name: "ok-remove-missing", about: "nothing to remove", stream: join(file("a", "x"), remove("db/gone.frm"))},
		{name: "ok-remove-directory", about: "all below it is free again", stream: join(file("d/a", "x"), file("d/b", "x"), file("dx", "x"), remove("d"), file("d/a", "y"), file("d/b", "y"))},
		{name: "ok-remove-prefix", about: "mbstream removes nothing here", stream: join(file("db/t#P#p0.MYD", "x"), file("db/u", "x"), remove("db/t#P#*"), file("db/t#P#p0.MYD", "y"))},
		{name: "ok-remove-prefix-all", about: "all files of a directory", stream: join(file("db/t", "x"), remove("db/*"), file("db/t", "y"))},
		{name: "ok-rewrite", about: "a file sent again", stream: join(file("db/db.opt", "x"), rewrite("db/db.opt", 0, "y"), end("db/db.opt"))},
		{name: "ok-rewrite-chunks", about: "every payload of it has the flag", stream: join(file("a", "xx"), rewrite("a", 0, "y"), rewrite("a", 1, "z"), end("a"))},
		{name: "ok-rewrite-ignorable", about: "flags 3, at which mbstream stops with status 0", stream: join(file("a", "x"), payloadFlags(3, "a", 0, "y"), end("a"))},
		{name: "ok-rewrite-unseen", about: "a table created during the backup", stream: join(rewrite("a", 0, "y"), end("a"))},
		{name: "ok-rewrite-empty", about: "an emptied table: the flag comes with the files that follow",
			stream: join(file("t.MYD", "x"), file("t.MYI", "x"), end("t.MYD"), rewrite("t.MYI", 0, "y"), end("t.MYI"))},
		{name: "ok-recreated-empty", about: "removed and sent again, empty", stream: join(file("t.MYD", "x"), remove("t.MYD"), end("t.MYD"))},
	}
}

func cutVectors() []vector {
	whole := join(file("a", "x"), file(long, "page page page"))
	chunk := int64(len(file("a", "x")))
	cut := func(name, about string, kind xbstream.Kind, at int64, path string) vector {
		return vector{name: name, about: about, kind: kind, offset: chunk, path: path, stream: whole[:chunk+at]}
	}
	unended := cut("bad-cut-no-end", "cut after a payload: mbstream leaves a short file, silently, with status 0", xbstream.KindUnended, ibdHead+14, "")
	unended.offset += ibdHead + 14
	junk := func(name, about string, kind xbstream.Kind, tail string) vector {
		return vector{name: name, about: about, kind: kind, offset: chunk, stream: join(file("a", "x"), []byte(tail))}
	}
	renamed := join(file("a", "x"), rename("a", "b"))
	holes := join(file("a", "x"), sparse("t.ibd", 0, "datamore", 4, 4, 8, 4))
	return []vector{
		{name: "bad-empty", about: "nothing at all: status 0 with mbstream", kind: xbstream.KindEmpty},
		cut("bad-cut-magic", "cut inside the magic", xbstream.KindTruncated, 5, ""),
		cut("bad-cut-head", "cut inside the path length", xbstream.KindTruncated, 12, ""),
		cut("bad-cut-path", "cut inside the path", xbstream.KindTruncated, 20, ""),
		cut("bad-cut-offset", "cut inside the offset", xbstream.KindTruncated, ibdHead-8, long),
		cut("bad-cut-before-payload", "cut before the payload", xbstream.KindTruncated, ibdHead, long),
		cut("bad-cut-payload", "cut inside the payload", xbstream.KindTruncated, ibdHead+13, long),
		unended,
		{name: "bad-cut-between", about: "cut exactly between two files: status 0 with mbstream", kind: xbstream.KindMetadata, backup: true, offset: chunk, stream: whole[:chunk]},
		{name: "bad-cut-seek", about: "cut inside a seek", kind: xbstream.KindTruncated, path: "a", stream: seek("a", 8)[:18]},
		{name: "bad-cut-after-seek", about: "the file of the seek has no end", kind: xbstream.KindUnended, offset: 23, stream: seek("a", 8)},
		{name: "bad-cut-after-seek-magic", about: "cut inside the magic after a seek", kind: xbstream.KindTruncated, path: "a", stream: join(seek("a", 8), []byte(magic[:5]))},
		{name: "bad-cut-rename", about: "cut inside the new path's length", kind: xbstream.KindTruncated, offset: chunk, path: "a", stream: renamed[:len(renamed)-3]},
		{name: "bad-cut-rename-path", about: "cut inside the new path", kind: xbstream.KindTruncated, offset: chunk, path: "a", stream: renamed[:len(renamed)-1]},
		{name: "bad-cut-sparse", about: "cut inside the map", kind: xbstream.KindTruncated, offset: chunk, path: "t.ibd", stream: holes[:len(holes)-12]},
		junk("bad-junk-short", "3 bytes after the last chunk", xbstream.KindMagic, "\r\n\x00"),
		junk("bad-junk-long", "text after the last chunk", xbstream.KindMagic, "mariadb-backup: completed OK!\n"),
		junk("bad-junk-zeros", "padding after the last chunk", xbstream.KindMagic, strings.Repeat("\x00", 512)),
		junk("bad-junk-half-magic", "right magic, then text", xbstream.KindPath, magic+"text, text, t\x04\x00\x00\x00more"),
	}
}

func headVectors() []vector {
	flipped := file(long, "page page page")
	flipped[ibdHead+7] ^= 0x10
	other := join(file("a", "x"), file("b", "x"))
	other[len(file("a", "x"))+7] = '2'
	badMap := join(sparse("t.ibd", 0, "datamore", 4, 4, 8, 4), end("t.ibd"))
	badMap[14+5+24] ^= 1
	bad := func(name, about string, kind xbstream.Kind, path string, stream []byte) vector {
		return vector{name: name, about: about, kind: kind, path: path, stream: stream}
	}
	return []vector{
		bad("bad-crc-flip", "one bit of the payload", xbstream.KindChecksum, long, flipped),
		bad("bad-crc-stored", "the stored checksum is wrong", xbstream.KindChecksum, "a", join(rawPayload(0, "a", 1, 0, 1, "x"), end("a"))),
		bad("bad-crc-empty", "a checksum for nothing", xbstream.KindChecksum, "a", join(rawPayload(0, "a", 0, 0, 1, ""), end("a"))),
		bad("bad-crc-castagnoli", "the other CRC-32", xbstream.KindChecksum, "a", join(rawPayload(0, "a", 9, 0, 0xE3069283, "123456789"), end("a"))),
		bad("bad-crc-map", "one bit of a sparse map", xbstream.KindChecksum, "t.ibd", badMap),
		bad("bad-crc-ignorable", "a skipped chunk is checked too", xbstream.KindChecksum, "a", join(withType('X', rawPayload(1, "a", 1, 0, 1, "x")), end("a"))),
		{name: "bad-magic", about: "another version of the format", kind: xbstream.KindMagic, offset: int64(len(file("a", "x"))), stream: other},
		bad("bad-type", "an unknown type", xbstream.KindType, "a", unknown(0, 'X', "a", "x")),
		bad("bad-type-small-s", "our name for sparse is not the wire's", xbstream.KindType, "a", unknown(0, 's', "a", "x")),
		bad("bad-flags", "an unknown flag", xbstream.KindFlags, "a", payloadFlags(4, "a", 0, "x")),
		bad("bad-size-huge", "mbstream tries to allocate it", xbstream.KindLimit, "a", rawPayload(0, "a", 1<<63, 0, 0, "x")),
		bad("bad-size-over", "just over the limit", xbstream.KindLimit, "a", rawPayload(0, "a", 1<<62+1, 0, 0, "x")),
		bad("bad-size-allowed", "the limit itself: nothing is allocated for it", xbstream.KindTruncated, "a", rawPayload(0, "a", 1<<62, 0, 0, "x")),
		bad("bad-offset-huge", "an offset that is negative as int64", xbstream.KindLimit, "a", rawPayload(0, "a", 1, 1<<64-1, 0, "x")),
		bad("bad-sum-huge", "size and offset are too much together", xbstream.KindLimit, "a", rawPayload(0, "a", 1<<61, 1<<61+1, 0, "x")),
		bad("bad-seek-huge", "a seek too far", xbstream.KindLimit, "a", join(seek("a", 1<<62+1), end("a"))),
		bad("bad-sparse-entries", "too many entries", xbstream.KindLimit, "a", rawSparse("a", 1<<18+1, 1, 0, 0, sparseMap(1, 1))),
		bad("bad-sparse-sum", "the map has a byte more than the payload", xbstream.KindSparse, "t.ibd", sparse("t.ibd", 0, "data", 0, 5)),
		bad("bad-sparse-size", "a size out of bounds", xbstream.KindLimit, "a", rawSparse("a", 1, 1<<62+1, 0, 0, sparseMap(1, 1))),
		bad("bad-sparse-holes", "holes beyond the limit", xbstream.KindLimit, "a", rawSparse("a", 1, 0, 1<<62, 0, sparseMap(1, 0))),
	}
}

func withType(typ byte, chunk []byte) []byte {
	chunk[9] = typ
	return chunk
}

func pathVectors() []vector {
	var list []vector
	for _, p := range []struct{ name, about, path string }{
		{"up", "out of the directory", "../x"}, {"up-inside", "out and in again", "a/../b"}, {"up-last", "ends above", "a/.."},
		{"absolute", "an absolute path", "/abs/x"}, {"dot", "mbstream writes it and refuses to read it, with status 0", "./x"},
		{"dot-inside", "two names for one file", "a/./b"}, {"double-slash", "two names for one file", "a//b"},
		{"slash-last", "a directory", "a/"}, {"nul", "mbstream cuts the name there", "a\x00b"}, {"star", "a prefix", "a*"},
		{"all-dots", "the directory itself", "."},
	} {
		for kind, chunk := range map[string][]byte{
			"payload": payload(p.path, 0, "x"), "end": end(p.path), "seek": join(seek(p.path, 0), end("a")),
			"rename-from": rename(p.path, "a"), "rename-to": rename("a", p.path), "remove": remove(p.path),
			"ignorable": unknown(1, 'X', p.path, "x"), "sparse": sparse(p.path, 0, "x", 0, 1),
		} {
			if kind == "remove" && p.name == "star" {
				continue
			}
			list = append(list, vector{name: "bad-path-" + p.name + "-" + kind, about: p.about, kind: xbstream.KindPath, offset: 16, path: p.path, stream: join(end("ok"), chunk)})
		}
	}
	lengths := func(name string, n uint32, path string) vector {
		return vector{name: name, about: "the length of a path", kind: xbstream.KindPath, stream: join([]byte(magic), []byte{0, 'P'}, le32(n), []byte(path))}
	}
	to := func(name string, n uint32, path string) vector {
		return vector{name: name, about: "the length of the new path", kind: xbstream.KindPath, path: "a", stream: join(start(0, 'R', "a"), le32(n), []byte(path))}
	}
	return append(list,
		lengths("bad-path-empty", 0, ""), lengths("bad-path-512", 512, strings.Repeat("a", 512)), lengths("bad-path-huge", 1<<32-1, "a"),
		to("bad-path-empty-rename", 0, ""), to("bad-path-512-rename", 512, strings.Repeat("a", 512)), to("bad-path-huge-rename", 1<<32-1, "a"),
		vector{name: "bad-path-remove-all", about: "every file there is", kind: xbstream.KindPath, path: "*", stream: remove("*")},
		vector{name: "bad-path-remove-up", about: "a prefix out of the directory", kind: xbstream.KindPath, path: "../*", stream: remove("../*")},
	)
}

func orderVectors() []vector {
	at := func(n int, v vector) vector { v.offset = int64(n); return v }
	a, x := file("a", "x"), payload("a", 0, "xxx")
	order, repeated := xbstream.KindOrder, xbstream.KindRepeated
	return []vector{
		{name: "bad-order-first", about: "the first payload is not at 0", kind: order, path: "a", stream: join(payload("a", 1, "x"), end("a"))},
		at(len(x), vector{name: "bad-order-gap", about: "a payload is missing", kind: order, path: "a", stream: join(x, payload("a", 4, "x"), end("a"))}),
		at(len(x), vector{name: "bad-order-overlap", about: "a payload comes twice", kind: order, path: "a", stream: join(x, x, end("a"))}),
		at(len(x), vector{name: "bad-order-rewrite-open", about: "the flag doesn't restart a file that is open", kind: order, path: "a", stream: join(x, rewrite("a", 0, "y"), end("a"))}),
		at(23, vector{name: "bad-order-seek", about: "not where the seek went", kind: order, path: "a", stream: join(seek("a", 8), payload("a", 0, "x"), end("a"))}),
		at(len(sparse("a", 0, "x", 4, 1)), vector{name: "bad-order-sparse", about: "the holes don't count", kind: order, path: "a", stream: join(sparse("a", 0, "x", 4, 1), payload("a", 1, "x"), end("a"))}),
		at(len(a), vector{name: "bad-repeated", about: "two archives one after the other: status 0 with mbstream", kind: repeated, path: "a", stream: join(a, a)}),
		at(len(a), vector{name: "bad-repeated-seek", about: "a seek reopens a file", kind: repeated, path: "a", stream: join(a, seek("a", 0), end("a"))}),
		at(len(a), vector{name: "bad-repeated-late-flag", about: "the flag comes too late", kind: repeated, path: "a", stream: join(a, payload("a", 0, "x"), rewrite("a", 1, "x"), end("a"))}),
		at(len(end("a")), vector{name: "bad-repeated-end", about: "two archives of an empty file", kind: repeated, path: "a", stream: join(end("a"), end("a"))}),
		at(len(end("a")), vector{name: "bad-repeated-end-other", about: "two archives that share an empty file", kind: repeated, path: "a", stream: join(end("a"), end("a"), file("b", "x"))}),
		at(len(end("a")), vector{name: "bad-repeated-end-late", about: "a rewrite after another file doesn't explain it", kind: repeated, path: "a", stream: join(end("a"), end("a"), file("b", "x"), rewrite("a", 0, "x"), end("a"))}),
		at(len(mixed()), vector{name: "bad-repeated-backup", about: "two whole backups", kind: repeated, path: "aria_log_control", backup: true, stream: join(mixed(), mixed())}),
		at(2*len(file("b", "x")), vector{name: "bad-repeated-renamed", about: "the new name is taken", kind: repeated, path: "c", stream: join(file("b", "x"), file("c", "y"), file("c", "z"))}),
		at(len(a)+len(rename("a", "c")), vector{name: "bad-repeated-after-rename", about: "a rename takes the new name", kind: repeated, path: "c", stream: join(a, rename("a", "c"), file("c", "z"))}),
	}
}

func renameVectors() []vector {
	open, x := xbstream.KindOpen, payload("d/a", 0, "x")
	at := int64(len(x))
	return []vector{
		{name: "bad-open-rename", about: "the source has not ended", kind: open, offset: at, path: "d/a", stream: join(x, rename("d/a", "b"), end("d/a"))},
		{name: "bad-open-rename-target", about: "the target has not ended", kind: open, offset: at + int64(len(file("b", "x"))), path: "d/a", stream: join(x, file("b", "x"), rename("b", "d/a"), end("d/a"))},
		{name: "bad-open-remove", about: "the file has not ended", kind: open, offset: at, path: "d/a", stream: join(x, remove("d/a"), end("d/a"))},
		{name: "bad-open-remove-directory", about: "a file below has not ended", kind: open, offset: at, path: "d", stream: join(x, remove("d"), end("d/a"))},
		{name: "bad-open-remove-prefix", about: "a file with the prefix has not ended", kind: open, offset: at, path: "d/*", stream: join(x, remove("d/*"), end("d/a"))},
	}
}

func closingVectors() []vector {
	missing := func(name string, stream []byte) vector {
		return vector{name: name, about: "a whole backup ends with three metadata files", kind: xbstream.KindMetadata, offset: int64(len(stream)), backup: true, stream: stream}
	}
	checkpoints, config, info := file("xtrabackup_checkpoints", "x"), file("backup-my.cnf", "x"), file("xtrabackup_info", "x")
	open := join(checkpoints, config, payload("xtrabackup_info", 0, "x"))
	return []vector{
		missing("bad-closing-all", file("a", "x")),
		missing("bad-closing-info", join(checkpoints, config)),
		missing("bad-closing-config", join(checkpoints, info)),
		missing("bad-closing-checkpoints", join(config, info)),
		missing("bad-closing-directory", join(checkpoints, config, file("db/xtrabackup_info", "x"))),
		{name: "bad-closing-unended", about: "info has no end", kind: xbstream.KindUnended, offset: int64(len(open)), backup: true, stream: open},
	}
}
