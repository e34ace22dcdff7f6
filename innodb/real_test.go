package innodb_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/innodb"
	"github.com/mbwrap/mbwrap/xbstream"
)

// algorithms are those of page_compressed. The plugins of the server's package provide them all but lzo.
var algorithms = []string{"zlib", "lz4", "lzo", "lzma", "bzip2", "snappy"}

// providers loads those that are there.
func providers() []string {
	var opts []string
	for _, name := range algorithms[1:] {
		found, _ := filepath.Glob("/usr/lib*/*/plugin/provider_" + name + ".so")
		if len(found) > 0 {
			opts = append(opts, "--plugin-load-add=provider_"+name)
		}
	}
	return opts
}

// makeTables makes a table of every kind in database d. zip says whether pages are small enough for ROW_FORMAT=COMPRESSED.
func makeTables(t *testing.T, s *server, zip, keys bool) {
	t.Helper()
	const columns = "(id int primary key auto_increment, v varchar(300), b mediumblob, key (v(40)))"
	const fill = "(v, b) select sha2(seq, 512), if(seq % 20, null, repeat(sha2(seq, 512), 300)) from seq_1_to_200;\n"
	var b strings.Builder
	b.WriteString("create database d; use d;\n")
	table := func(name, options string) {
		fmt.Fprintf(&b, "create table `%s` %s %s; insert into `%s` %s", name, columns, options, name, fill)
	}
	for _, format := range []string{"redundant", "compact", "dynamic"} {
		table(format, "row_format="+format)
	}
	if zip {
		for kib := 1; kib <= 16; kib *= 2 {
			s.try(t.Context(), "set global innodb_strict_mode=off")
			fmt.Fprintf(&b, "set innodb_strict_mode=off;")
			table(fmt.Sprintf("zip%d", kib), fmt.Sprintf("row_format=compressed key_block_size=%d", kib))
		}
	}
	table("päge com.pressed", "page_compressed=1")
	if keys {
		table("crypt", "encrypted=yes")
		table("cryptpack", "encrypted=yes page_compressed=1")
		if zip {
			table("cryptzip", "encrypted=yes row_format=compressed")
		}
	}
	b.WriteString(`
create table geo (id int primary key auto_increment, g geometry not null, spatial index (g));
insert into geo (g) select point(seq % 97, seq) from seq_1_to_3000;
create table words (id int primary key auto_increment, w text, fulltext (w)); insert into words (w) select concat('word', seq, ' other', seq % 7) from seq_1_to_300;
create table instantly (a int primary key, b int); insert into instantly select seq, seq from seq_1_to_500;
alter table instantly add column c varchar(20) default 'x' first, add column d int, algorithm=instant; alter table instantly drop column b, algorithm=instant;
insert into instantly (a, d) select seq, 1 from seq_1000_to_1500;
create table gone (a int primary key) select seq a from seq_1_to_100; alter table gone discard tablespace;
create table parts (a int primary key, v varchar(100)) partition by range (a) subpartition by hash (a) subpartitions 2 (partition p0 values less than (100), partition p1 values less than maxvalue);
insert into parts select seq, sha1(seq) from seq_1_to_400;
create table never (a int primary key);
`)
	fmt.Fprintf(&b, "create table remote %s data directory='%s'; insert into remote %s", columns, s.dir, fill)
	fmt.Fprintf(&b, "start transaction; update dynamic set v = reverse(v), b = concat(b, 'x'); update compact set v = reverse(v); rollback;\n")
	s.sql(t, b.String())
	for _, name := range algorithms { // in the older format the algorithm is that of the moment of writing
		s.try(t.Context(), fmt.Sprintf(`set global innodb_compression_algorithm=%[1]s; use d;
			create table pack_%[1]s %[2]s page_compressed=1; insert into pack_%[1]s %[3]s flush tables pack_%[1]s for export; unlock tables`,
			name, columns, fill))
	}
}

// change runs statements of every sort until ctx ends. Some fail, which is as well.
func change(ctx context.Context, s *server) {
	for i := 0; ctx.Err() == nil; i++ {
		s.try(ctx, fmt.Sprintf(`use d;
			create table new%[1]d (id int primary key auto_increment, v varchar(300), b mediumblob) select * from dynamic limit 200;
			update compact set v = sha2(id + %[1]d, 256); update zip8 set v = sha2(id + %[1]d, 256) where id %% 3 = 0;`, i))
		s.try(ctx, fmt.Sprintf(`use d;
			update crypt set v = sha2(id + %[1]d, 256) where id %% 5 = 0; update pack_zlib set v = sha2(id + %[1]d, 256);
			rename table new%[1]d to renamed%[1]d; alter table redundant force; truncate table never; insert into never values (1);
			optimize table geo; alter table renamed%[1]d add index (v(20)); create table copy%[2]d like words;`, i, i%3))
		if i > 0 {
			s.try(ctx, fmt.Sprintf("use d; drop table renamed%d", i-1))
		}
	}
}

// checkStream judges a stream in pieces of the given size.
func checkStream(t *testing.T, stream io.Reader, piece int) ([]innodb.Page, innodb.Stats) {
	t.Helper()
	var pages []innodb.Page
	c := innodb.NewChecker(innodb.Options{OnBad: func(p innodb.Page) {
		if len(pages) < 100 {
			pages = append(pages, p)
		}
	}})
	x := xbstream.NewChecker(xbstream.Options{Handler: c})
	if _, err := io.CopyBuffer(struct{ io.Writer }{x}, struct{ io.Reader }{stream}, make([]byte, piece)); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	return pages, c.Stats()
}

// TestRealServers backs up servers of every page size and checksum kind while they are written to: nothing may be
// reported. It then takes an incremental.
func TestRealServers(t *testing.T) {
	tests := []struct {
		name      string
		zip, keys bool
		opts      []string
	}{
		{"16k full_crc32 undo", true, true, []string{"--innodb-undo-tablespaces=3", "--innodb-undo-log-truncate=on", "--innodb-max-undo-log-size=10M"}},
		{"16k strict_crc32 two files", true, true, []string{"--innodb-checksum-algorithm=strict_crc32",
			"--innodb-data-file-path=ibdata1:5M;ibdata2:6M;ibdata3:2M:autoextend"}},
		{"4k crc32 encrypted", true, true, []string{"--innodb-page-size=4k", "--innodb-checksum-algorithm=crc32", "--innodb-encrypt-tables=on",
			"--innodb-encryption-threads=2", "--innodb-encryption-rotate-key-age=1"}},
		{"8k full_crc32 encrypted", true, true, []string{"--innodb-page-size=8k", "--innodb-checksum-algorithm=strict_full_crc32",
			"--innodb-encrypt-tables=on", "--innodb-encryption-threads=2"}},
		{"32k crc32", false, true, []string{"--innodb-page-size=32k", "--innodb-checksum-algorithm=crc32", "--innodb-undo-tablespaces=2"}},
		{"64k full_crc32", false, true, []string{"--innodb-page-size=64k", "--innodb-data-file-path=ibdata1:12M;ibdata2:4M:autoextend"}},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			lap := func(what string) { t.Logf("%s after %v", what, time.Since(begin).Round(100*time.Millisecond)) }
			s := startServer(t, append(providers(), test.opts...)...)
			lap("started")
			makeTables(t, s, test.zip, test.keys)
			lap("tables made")
			s.settle(t)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); change(ctx, s) }()
			full := s.backup(t, "--parallel=2")
			s.try(t.Context(), "use d; update dynamic set v = reverse(v); update zip4 set v = reverse(v); flush tables dynamic, zip4 for export")
			lap("backed up")
			incremental := s.backup(t, "--incremental-lsn="+toLSN(t, full))
			stop()
			<-done
			soundStream(t, "full", full)
			soundStream(t, "incremental", incremental)
			lap("backed up twice")
			bendDeltas(t, incremental)
			compareWithOracle(t, full)
			if i == 0 {
				realNames(t, s)
			}
			lap("compared")
		})
	}
}

// soundStream wants no bad page in a stream.
func soundStream(t *testing.T, what string, stream []byte) {
	t.Helper()
	pages, stats := checkStream(t, bytes.NewReader(stream), 1<<20)
	for _, p := range pages[:min(len(pages), 10)] {
		t.Errorf("%s: got %+v, want no bad page", what, p)
	}
	t.Logf("%s: %d bytes, %+v", what, len(stream), stats)
}

// toLSN reads the end of a backup out of its stream.
func toLSN(t *testing.T, stream []byte) string {
	t.Helper()
	found := regexp.MustCompile(`to_lsn = (\d+)`).FindSubmatch(stream)
	if found == nil {
		t.Fatal("no to_lsn in the stream")
	}
	return string(found[1])
}
