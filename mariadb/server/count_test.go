package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb/internal/scratchtest"
	"github.com/mbwrap/mbwrap/mariadb/server"
)

func TestCountRows(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mariadbd")
	s := kit.New(t, "--plugin-load-add=ha_blackhole")
	scratchtest.Exec(t, s, "CREATE DATABASE d; CREATE DATABASE `o``dd`; CREATE TABLE `o``dd`.`t ;` (a INT); INSERT INTO `o``dd`.`t ;` VALUES (1);"+
		`USE d; CREATE TABLE a (x INT) ENGINE=InnoDB; INSERT INTO a SELECT seq FROM seq_1_to_1000;
		CREATE TABLE b (x INT) ENGINE=MyISAM; INSERT INTO b VALUES (1), (2); CREATE TABLE c (x INT) ENGINE=Aria;
		CREATE TABLE p (x INT) PARTITION BY HASH (x) PARTITIONS 3; INSERT INTO p VALUES (1), (2), (3);
		CREATE TABLE mem (x INT) ENGINE=MEMORY; CREATE TABLE hole (x INT) ENGINE=BLACKHOLE; CREATE SEQUENCE s; CREATE VIEW v AS SELECT 1`)
	total, told := 0, 0
	o := server.CountOptions{Parallel: 100, OnTotal: func(n int) { total = n }, OnTable: func(server.Rows) { told++ }}
	const want = "[d.a 1000 d.b 2 d.c 0 d.p 3 o`dd.t ; 1]"
	show := func(all []server.Rows) string {
		var texts []string
		for _, r := range all {
			texts = append(texts, fmt.Sprint(r, " ", r.Count))
		}
		return fmt.Sprint(texts)
	}
	conn := connect(t, scratchtest.AsRoot(s))
	for name, count := range map[string]func() ([]server.Rows, error){
		"by connection": func() ([]server.Rows, error) { return conn.CountRows(t.Context(), o) },
		"by handle":     func() ([]server.Rows, error) { return server.CountRows(t.Context(), s.DB(), o) },
	} {
		total, told = 0, 0
		all, err := count()
		if err != nil || show(all) != want || total != 5 || told != 5 {
			t.Errorf("%s: got %s, %d in all, %d told, error %v, want %s", name, show(all), total, told, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	o.OnTable = func(server.Rows) { cancel() }
	o.Parallel = 0
	if _, err := conn.CountRows(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v, want %v", err, context.Canceled)
	}
}

// TestCountRowsNotAll: what can't be counted says why, and holds nobody up.
func TestCountRowsNotAll(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mariadbd")
	s := kit.New(t)
	scratchtest.Exec(t, s, `CREATE DATABASE d; USE d; CREATE TABLE a (x INT); INSERT INTO a VALUES (1);
		CREATE TABLE big (x INT) ENGINE=MyISAM; CREATE TABLE held (x INT);
		CREATE USER few@localhost; GRANT SELECT ON d.a TO few@localhost; GRANT INSERT ON d.big TO few@localhost`)
	few := scratchtest.AsRoot(s)
	few.User = "few"
	all, err := connect(t, few).CountRows(t.Context(), server.CountOptions{})
	if err != nil || len(all) != 2 || all[0].Count != 1 || all[1].Count != -1 || !strings.Contains(all[1].Reason, "denied") {
		t.Errorf("got %+v, error %v, want one table, and one denied", all, err)
	}

	// A table that someone holds is given up when its time is over.
	lock, err := s.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := lock.ExecContext(t.Context(), "LOCK TABLES d.held WRITE"); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	all, err = connect(t, scratchtest.AsRoot(s)).CountRows(t.Context(), server.CountOptions{PerTable: 300 * time.Millisecond, Parallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(started); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
	for _, r := range all {
		if held := r.Name == "held"; held != (r.Count < 0) || held != (r.Reason != "") {
			t.Errorf("got %+v, want only the held table left out", r)
		}
	}
}

// TestCountRowsWithoutServer: a server that is gone is an error.
func TestCountRowsWithoutServer(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "mariadbd")
	s := kit.New(t)
	conn, err := server.Connect(t.Context(), scratchtest.AsRoot(s))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() // its server is gone
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.CountRows(t.Context(), server.CountOptions{}); err == nil {
		t.Error("got no error")
	}
}
