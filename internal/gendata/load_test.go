package gendata_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/internal/gendata"
	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
)

// startScratch returns a running throwaway server.
func startScratch(t *testing.T) *scratch.Server {
	t.Helper()
	testenv.Need(t, "mariadbd")
	s := &scratch.Server{
		Dir:  filepath.Join(t.TempDir(), "data"),
		Args: []string{"--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync"},
	}
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestLoadAndChange(t *testing.T) {
	s := startScratch(t)
	rows := map[string]int{}
	began := time.Now()
	o := gendata.Options{Sysbench: 8 << 20, TPCC: 8 << 20, Special: true, Seed: 1, OnTable: func(name string, n int) { rows[name] = n }}
	if err := gendata.Load(t.Context(), s.DB(), o); err != nil {
		t.Fatal(err)
	}
	t.Logf("loaded in %v", time.Since(began))
	before, err := s.Checksums(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range rows {
		if strings.HasSuffix(name, "*") {
			continue
		}
		var got int
		if err := s.DB().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+name).Scan(&got); err != nil || got != want {
			t.Errorf("%s: got %d rows, want %d (%v)", name, got, want, err)
		}
	}
	for _, name := range []string{"sbtest.sbtest4", "tpcc.order_line", "special.merged", "special.odd name #1 ümläut", "odd-db #2 ü.100%"} {
		if before[name] == 0 {
			t.Errorf("table %q: got no checksum, want one", name)
		}
	}
	done, err := gendata.Change(t.Context(), s.DB())
	if err != nil || len(done) == 0 {
		t.Fatalf("got %q, %v, want a list of changes", done, err)
	}
	after, err := s.Checksums(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sbtest.sbtest1", "sbtest.sbtest4", "tpcc.history", "tpcc.orders", "special.aria_plain", "special.merged"} {
		if before[name] == after[name] {
			t.Errorf("table %q: got the same checksum after the change, want another", name)
		}
	}
}

// TestSizes compares the size that was asked for with that of the tablespaces, which grow by steps of several MiB.
func TestSizes(t *testing.T) {
	s := startScratch(t)
	const want = 48 << 20
	if err := gendata.Load(t.Context(), s.DB(), gendata.Options{Sysbench: want, TPCC: want, Seed: 2}); err != nil {
		t.Fatal(err)
	}
	for _, db := range []string{"sbtest", "tpcc"} {
		var got int
		const query = `SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces WHERE name LIKE CONCAT(?, "/%")`
		if err := s.DB().QueryRowContext(t.Context(), query, db).Scan(&got); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d MiB", db, got>>20)
		if got < want*6/10 || got > want*2 {
			t.Errorf("%s: got %d bytes of tables, want about %d", db, got, want)
		}
	}
}
