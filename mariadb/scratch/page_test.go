package scratch_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/mariadb/internal/scratchtest"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
)

// mangle puts junk into the records of a page of an InnoDB file and makes its checksum right again (full_crc32: CRC-32C
// of all but the last four bytes, which hold it). Only a server that looks at the records sees it, and it may well end
// over it.
func mangle(t *testing.T, file string, number int64, r *rand.Rand) {
	t.Helper()
	const size = 16384
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, size)
	if _, err := f.ReadAt(page, number*size); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		page[100+r.IntN(8000)] = byte(r.Uint32())
	}
	binary.BigEndian.PutUint32(page[size-4:], crc32.Checksum(page[:size-4], crc32.MakeTable(crc32.Castagnoli)))
	if _, err := f.WriteAt(page, number*size); err != nil {
		t.Fatal(err)
	}
}

// TestRightChecksumsWrongRecords: what the server makes of wrong records under right checksums, be it its own end or
// no end at all, is a finding about that table alone.
func TestRightChecksumsWrongRecords(t *testing.T) {
	t.Parallel()
	s := restored(t, `CREATE DATABASE d; USE d; CREATE TABLE good (a INT PRIMARY KEY, b CHAR(100), KEY (b)); INSERT INTO good SELECT seq, MD5(seq) FROM seq_1_to_3000;
		CREATE TABLE bad1 LIKE good; CREATE TABLE bad2 LIKE good; CREATE TABLE bad3 LIKE good;
		INSERT INTO bad1 SELECT * FROM good; INSERT INTO bad2 SELECT * FROM good; INSERT INTO bad3 SELECT * FROM good`)
	r := rand.New(rand.NewPCG(1, 2))
	for i, page := range []int64{6, 5, 8} { // leaves of the clustered index, and of the other
		mangle(t, filepath.Join(s.Dir, "d", fmt.Sprintf("bad%d.ibd", i+1)), page, r)
	}
	scratchtest.Start(t, s)
	all, err := s.CheckTables(t.Context(), scratch.CheckOptions{Parallel: 4, Patience: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, table := range all {
		want := scratch.StatusOK
		switch table.String() {
		case "d.bad1", "d.bad2", "d.bad3":
			want = scratch.StatusCorrupt
		}
		if table.Schema == "d" {
			seen++
		}
		if table.Status != want {
			t.Errorf("%s: got %s %q, want %s", table, table.Status, table.Messages, want)
		}
	}
	if seen != 4 {
		t.Errorf("got %d tables, want 4", seen)
	}
}
