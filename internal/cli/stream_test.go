package cli

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mbwrap/mbwrap/xbstream"
)

// streamSpec says what stream a script wants. The same spec gives the same bytes.
type streamSpec struct {
	tables   int    // shop/t0001.ibd and on, with their .frm
	size     int    // bytes of each .ibd
	from, to uint64 // LSNs; from > 0 makes an incremental
	bad      int    // this table's page 3 has a wrong checksum, in chunks that are right
	short    bool   // without the closing metadata files: a stream cut at a chunk's border
}

// scriptMkstream makes an xbstream in FILE:
//
//	mkstream FILE [tables=3] [size=98304] [from=0] [to=47751] [short=1] [bad=TABLE]
func scriptMkstream(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "mkstream FILE [NAME=NUMBER…]")
	values := map[string]uint64{"tables": 3, "size": 98_304, "from": 0, "to": 47751, "short": 0, "bad": 0}
	for _, a := range args[1:] {
		name, text, _ := strings.Cut(a, "=")
		n, err := strconv.ParseUint(text, 10, 64)
		ts.Check(err)
		if _, ok := values[name]; !ok {
			ts.Fatalf("mkstream: unknown %q", name)
		}
		values[name] = n
	}
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	err = writeStream(f, streamSpec{tables: int(values["tables"]), size: int(values["size"]), from: values["from"],
		to: values["to"], short: values["short"] > 0, bad: int(values["bad"])})
	ts.Check(errors.Join(err, f.Close()))
}

// writeStream writes the stream that s describes.
func writeStream(dst io.Writer, s streamSpec) error {
	w := xbstream.NewWriter(dst)
	random := rand.New(rand.NewPCG(1, 2))
	err := addFile(w, "ibdata1", pages(random, 3*pageSize))
	for i := range s.tables {
		name := fmt.Sprintf("shop/t%04d", i+1)
		space := pages(random, s.size)
		if i+1 == s.bad {
			at := 3*pageSize + 1000
			space = space[:at] + "X" + space[at+1:]
		}
		err = errors.Join(err, addFile(w, name+".ibd", space), addFile(w, name+".frm", "\xfe\x01definition"))
	}
	err = errors.Join(err, addFile(w, "ib_logfile0", rows(random, 10_000)))
	if s.short {
		return errors.Join(err, w.Close())
	}
	kind, incremental := "full-backuped", "N"
	if s.from > 0 {
		kind, incremental = "incremental", "Y"
	}
	return errors.Join(err,
		addFile(w, "xtrabackup_checkpoints", fmt.Sprintf("backup_type = %s\nfrom_lsn = %d\nto_lsn = %d\nlast_lsn = %d\n",
			kind, s.from, s.to, s.to+12)),
		addFile(w, "xtrabackup_binlog_info", "binlog.000003\t1234\t0-1-77\n"),
		addFile(w, "backup-my.cnf", "[mariadbd]\ninnodb_page_size=16384\ninnodb_undo_tablespaces=0\n"),
		addFile(w, "xtrabackup_info", "uuid = 9d0ef0b7-ce17-11f0-8de9-0242ac110002\ntool_name = mariadb-backup\n"+
			"tool_version = 10.11.11-MariaDB\nserver_version = 10.11.11-MariaDB\nstart_time = 2026-11-30 18:01:02\n"+
			"end_time = 2026-11-30 18:01:03\npartial = N\nincremental = "+incremental+"\nformat = xbstream\ncompressed = N\n"),
		w.Close())
}

func addFile(w *xbstream.Writer, path, text string) error {
	_, err := w.WriteFile(path, strings.NewReader(text))
	return err
}

// rows makes size bytes that compress as business rows do.
func rows(random *rand.Rand, size int) string {
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "%08d customer %04x order %d open\n", b.Len(), random.IntN(1<<16), random.IntN(1000))
	}
	return b.String()[:size]
}

// pageSize is InnoDB's usual one, in bytes.
const pageSize = 16384

// pages makes a tablespace of rows: whole pages of the default format, full_crc32, with right checksums, and a rest.
func pages(random *rand.Rand, size int) string {
	data := []byte(rows(random, size))
	for number := range size / pageSize {
		page := data[number*pageSize : (number+1)*pageSize]
		clear(page[:38])
		binary.BigEndian.PutUint32(page[4:], uint32(number))
		binary.BigEndian.PutUint32(page[20:], 47751) // the LSN, which the end of the page repeats
		binary.BigEndian.PutUint32(page[pageSize-8:], 47751)
		binary.BigEndian.PutUint16(page[24:], 17855) // a B-tree's page
		if number == 0 {
			binary.BigEndian.PutUint16(page[24:], 8) // the space's header
			binary.BigEndian.PutUint32(page[54:], 0x15)
		}
		sum := crc32.Checksum(page[:pageSize-4], crc32.MakeTable(crc32.Castagnoli))
		binary.BigEndian.PutUint32(page[pageSize-4:], sum)
	}
	return string(data)
}

func TestStreamsAreBackups(t *testing.T) {
	for _, s := range []streamSpec{{}, {tables: 2, size: 1}, {tables: 1, size: 2 << 20, from: 5, to: 10}} {
		c := xbstream.NewChecker(xbstream.Options{})
		if err := errors.Join(writeStream(c, s), c.Close()); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	c := xbstream.NewChecker(xbstream.Options{})
	if err := errors.Join(writeStream(c, streamSpec{short: true}), c.Close()); !errors.Is(err, xbstream.ErrMetadata) {
		t.Errorf("short: got %v, want ErrMetadata", err)
	}
}
