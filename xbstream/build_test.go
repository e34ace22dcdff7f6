package xbstream_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"strings"
)

// Chunks built by hand from the format's description, not by the Writer: the tests' own idea of the wire.

const magic = "XBSTCK01"

func le32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
func le64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// start is the part that all chunks share.
func start(flags, typ byte, path string) []byte {
	return join([]byte(magic), []byte{flags, typ}, le32(uint32(len(path))), []byte(path))
}

// rawPayload has any length, offset and checksum the test wants.
func rawPayload(flags byte, path string, size, offset uint64, crc uint32, data string) []byte {
	return join(start(flags, 'P', path), le64(size), le64(offset), le32(crc), []byte(data))
}

func payloadFlags(flags byte, path string, offset uint64, data string) []byte {
	return rawPayload(flags, path, uint64(len(data)), offset, crc32.ChecksumIEEE([]byte(data)), data)
}

func payload(path string, offset uint64, data string) []byte {
	return payloadFlags(0, path, offset, data)
}

func rewrite(path string, offset uint64, data string) []byte {
	return payloadFlags(2, path, offset, data)
}

func end(path string) []byte { return start(0, 'E', path) }

func seek(path string, offset uint64) []byte { return join(start(0, 'S', path), le64(offset)) }

func remove(path string) []byte { return start(0, 'D', path) }

func rename(from, to string) []byte {
	return join(start(0, 'R', from), le32(uint32(len(to))), []byte(to))
}

// extents of a sparse map: skip, length, skip, length, …
func sparseMap(extents ...uint32) []byte {
	var b []byte
	for _, n := range extents {
		b = append(b, le32(n)...)
	}
	return b
}

func rawSparse(path string, entries uint32, size, offset uint64, crc uint32, rest []byte) []byte {
	return join(start(0, 'S', path), le32(entries), le64(size), le64(offset), le32(crc), rest)
}

func sparse(path string, offset uint64, data string, extents ...uint32) []byte {
	rest := join(sparseMap(extents...), []byte(data))
	return rawSparse(path, uint32(len(extents)/2), uint64(len(data)), offset, crc32.ChecksumIEEE(rest), rest)
}

// file is a whole small file in one chunk.
func file(path, data string) []byte { return join(payload(path, 0, data), end(path)) }

// closing are the metadata files at the end of a backup, in the names of a tool before 11.1.
func closing() []byte {
	return join(file("xtrabackup_checkpoints", "to_lsn = 1\n"), file("backup-my.cnf", "[mysqld]\n"), file("xtrabackup_info", "uuid = 1\n"))
}

// mixed is a good stream with every type of chunk that MariaDB writes, files interleaved.
func mixed() []byte {
	return join(
		payload("aria_log_control", 0, "control"), end("aria_log_control"),
		payload("ib_logfile0", 0, "redo"),
		payload("db/t.ibd", 0, "page one"), payload("db/m.MYD", 0, "row"), payload("db/t.ibd", 8, "page two"),
		end("db/m.MYD"), end("db/empty.MYD"), end("db/t.ibd"),
		file("db/m.frm", "definition"), file("db/m#P#p0.MYD", "part"),
		rename("db/m.MYD", "db/n.MYD"), rewrite("db/m.frm", 0, "new "), rewrite("db/m.frm", 4, "definition"), end("db/m.frm"),
		remove("db/m#P#*"), remove("db/gone.frm"), start(1, 'Z', "future"), le64(3), le64(0), le32(crc32.ChecksumIEEE([]byte("new"))), []byte("new"),
		payload("aria_log.00000001", 0, strings.Repeat("log ", 12)), seek("aria_log.00000001", 37), payload("aria_log.00000001", 37, "max lsn"), end("aria_log.00000001"),
		payload("ib_logfile0", 4, " log"), end("ib_logfile0"), closing(),
	)
}

// block is a piece of data that repeats; its checksum over many repetitions is quick to compute.
type block struct {
	data  []byte
	times int
}

func (b block) size() int64 { return int64(len(b.data)) * int64(b.times) }

func (b block) crc() uint32 {
	var crc uint32
	for range b.times {
		crc = crc32.Update(crc, crc32.IEEETable, b.data)
	}
	return crc
}

func newBlock(size, times int) block {
	return block{data: bytes.Repeat([]byte("0123456789abcdef"), size/16), times: times}
}

var errBroken = errors.New("broken")
