package scratch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/mariadb/internal/scratchtest"
	"github.com/mbwrap/mbwrap/mariadb/internal/tables"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
)

// running returns a server on restored data with some tables.
func running(t *testing.T) *scratch.Server {
	t.Helper()
	s := restored(t, "CREATE DATABASE d; CREATE TABLE d.a (x INT); CREATE TABLE d.b (x INT); CREATE TABLE d.c (x INT); CREATE TABLE d.e (x INT)")
	scratchtest.Start(t, s)
	return s
}

// checkWith checks the tables of database d, some of them with a check that ends the server.
func checkWith(t *testing.T, s *scratch.Server, parallel int, deadly func(table string)) (map[string]scratch.Table, int) {
	t.Helper()
	all, crashes, err := s.CheckWith(t.Context(), "d", scratch.CheckOptions{Parallel: parallel}, func(_ context.Context, name string) { deadly(name) })
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]scratch.Table)
	for _, table := range all {
		if _, twice := found[table.Name]; twice {
			t.Errorf("%s is there twice", table)
		}
		found[table.Name] = table
	}
	if len(found) != 4 {
		t.Errorf("got %d tables, want 4", len(found))
	}
	return found, crashes
}

// die ends the server as a crash does.
func die(t *testing.T, s *scratch.Server) {
	if err := unix.Kill(s.PID(), unix.SIGSEGV); err != nil && !errors.Is(err, unix.ESRCH) {
		t.Error(err)
	}
	<-s.Exited()
}

// TestServerEndsInACheck: the table that ends the server is named, and the others are checked.
func TestServerEndsInACheck(t *testing.T) {
	t.Parallel()
	s := running(t)
	for _, parallel := range []int{1, 4} {
		found, _ := checkWith(t, s, parallel, func(table string) {
			if table == "b" || table == "e" {
				die(t, s)
			}
		})
		for name, table := range found {
			want := scratch.StatusOK
			if name == "b" || name == "e" {
				want = scratch.StatusCorrupt
			}
			if table.Status != want {
				t.Errorf("%d at a time: %s: got %s %q, want %s", parallel, table, table.Status, table.Messages, want)
			}
			if want == scratch.StatusCorrupt && !strings.Contains(table.Messages[0], "got signal 11") {
				t.Errorf("%s: got %q, want the signal in it", table, table.Messages)
			}
		}
	}
	if err := s.DB().PingContext(t.Context()); err != nil {
		t.Errorf("after it, the server does not answer: %v", err)
	}
}

// TestServerEndsOnce: a server that ends by chance is no finding about a table.
func TestServerEndsOnce(t *testing.T) {
	t.Parallel()
	s := running(t)
	var once atomic.Bool
	found, crashes := checkWith(t, s, 1, func(table string) {
		if table == "b" && once.CompareAndSwap(false, true) {
			die(t, s)
		}
	})
	if found["b"].Status != scratch.StatusOK || crashes != 1 {
		t.Errorf("got %+v after %d crashes, want it to be well after 1", found["b"], crashes)
	}
}

// TestServerRunsInCircles: a check that does not end is ended, and the others go on.
func TestServerRunsInCircles(t *testing.T) {
	t.Parallel()
	s := running(t)
	o := scratch.CheckOptions{Parallel: 2, Patience: 2 * time.Second}
	all, crashes, err := s.CheckWith(t.Context(), "d", o, func(ctx context.Context, table string) {
		if table == "b" {
			<-ctx.Done()
		}
	})
	if err != nil || len(all) != 4 || crashes == 0 {
		t.Fatalf("got %+v, %d ends of the server, error %v, want four tables", all, crashes, err)
	}
	for _, table := range all {
		if bad := table.Name == "b"; bad != (table.Status == scratch.StatusCorrupt) || bad != strings.Contains(strings.Join(table.Messages, ""), "in circles") {
			t.Errorf("%s: got %s %q", table, table.Status, table.Messages)
		}
	}
	if err := s.DB().PingContext(t.Context()); err != nil {
		t.Errorf("after it, the server does not answer: %v", err)
	}
}

// TestServerStaysDown: when no server comes up again, what is left is not checked, and it comes to an end.
func TestServerStaysDown(t *testing.T) {
	t.Parallel()
	s := running(t)
	found, _ := checkWith(t, s, 1, func(table string) {
		if table == "b" {
			die(t, s)
			if err := os.Rename(filepath.Join(s.Dir, "ibdata1"), filepath.Join(s.Dir, "gone")); err != nil {
				t.Error(err)
			}
		}
	})
	for name, want := range map[string]scratch.Status{"a": scratch.StatusOK, "b": scratch.StatusCorrupt, "c": scratch.StatusNotChecked, "e": scratch.StatusNotChecked} {
		if found[name].Status != want {
			t.Errorf("%s: got %s %q, want %s", name, found[name].Status, found[name].Messages, want)
		}
	}
	if s.DB() != nil || s.PID() != 0 {
		t.Errorf("got handle %v, process %d, want none", s.DB(), s.PID())
	}
	if text := strings.Join(found["c"].Messages, ""); !strings.Contains(text, "does not come up again") || !strings.Contains(text, "incomplete") {
		t.Errorf("got %q, want why it does not come up", text)
	}
}

// TestServerEndsTooOften: after a number of ends nobody tries again.
func TestServerEndsTooOften(t *testing.T) {
	t.Parallel()
	s := running(t)
	die(t, s)
	done, up, err := s.Revive(t.Context(), scratch.MostCrashes, tables.Table{Schema: "d", Name: "a"})
	if err != nil || up || len(done) != 1 || done[0].Status != scratch.StatusNotChecked {
		t.Errorf("got %v, error %v, %+v, want it to be given up", up, err, done)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, up, err = s.Revive(ctx, 0); up || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v, error %v, want %v", up, err, context.Canceled)
	}
}
