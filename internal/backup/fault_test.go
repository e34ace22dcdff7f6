package backup

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/sinks/faulty"
)

// small is a stream of several blocks whose volumes, index, log, sums and manifest are a few kB.
func small(t testing.TB) []byte { return stream(t, 9000) }

// runFaulty runs a backup into a fresh repository, with faults that begin when the run does. A nil to leaves it plain.
func runFaulty(t *testing.T, data []byte, to *encrypt.Recipients, faults ...faulty.Fault) (*memory, *catalog.Repository, *faulty.Faults, error) {
	t.Helper()
	store := newMemory()
	table := faulty.New()
	r := repository(t, table.Wrap(store))
	table.Set(faults...)
	s := play(data)
	o := options(t, s)
	o.VolumeSize, o.Recipients = 100, to
	_, err := Run(t.Context(), target(r), o)
	table.Set()
	if !s.isStopped() {
		t.Errorf("%+v: the source was not stopped", faults)
	}
	return store, r, table, err
}

// TestDiskFullAtEveryByte: a disk that is full at byte n of all that a backup writes, for every n: always an error, never
// a backup, nothing left.
func TestDiskFullAtEveryByte(t *testing.T) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) { t.Parallel(); diskFull(t, nil, stride) })
	to, _ := operator(t)
	t.Run("encrypted", func(t *testing.T) { t.Parallel(); diskFull(t, to, 5*stride) })
}

func diskFull(t *testing.T, to *encrypt.Recipients, stride int64) {
	data := small(t)
	whole, r, _, err := runFaulty(t, data, to)
	if err != nil || !slices.Equal(listed(t, r), []catalog.State{catalog.Complete}) {
		t.Fatalf("good run: %v, listed %v", err, listed(t, r))
	}
	mark := int64(len(whole.objects[catalog.RepositoryObject]))
	total := whole.size() - mark
	// What varies from run to run, such as timings in the manifest, makes the total uncertain by some bytes.
	const uncertain = 100
	for n := int64(0); n < total-uncertain; n += stride {
		store, r, table, err := runFaulty(t, data, to, faulty.Fault{Op: faulty.Write, After: n, Total: true, Err: syscall.ENOSPC})
		when := fmt.Sprintf("disk full at byte %d", n)
		var sink *catalog.RepositoryError
		if !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &sink) || table.Struck() == 0 {
			t.Fatalf("%s: got %v, want a repository's ENOSPC", when, err)
		}
		if got := listed(t, r); len(got) > 0 {
			t.Fatalf("%s: listed: got %v, want none", when, got)
		}
		store.checkClean(t, when)
		if t.Failed() {
			return
		}
	}
}

// TestEveryOperationFails lets the k-th call of each operation fail, before or after it has done its work. Either there
// is an error and no backup, or a backup and no error.
func TestEveryOperationFails(t *testing.T) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) { t.Parallel(); everyOperation(t, nil) })
	to, _ := operator(t)
	t.Run("encrypted", func(t *testing.T) { t.Parallel(); everyOperation(t, to) })
}

func everyOperation(t *testing.T, to *encrypt.Recipients) {
	data := small(t)
	must := []faulty.Op{faulty.Create, faulty.Commit, faulty.Write} // these may never pass unnoticed
	for _, op := range append(must, faulty.Lock, faulty.List, faulty.Open, faulty.ReadAt, faulty.Unlock) {
		for _, late := range []bool{false, true} {
			if late && op != faulty.Create && op != faulty.Commit {
				continue
			}
			for k := 0; ; k++ {
				when := fmt.Sprintf("%s number %d (late: %v)", op, k, late)
				store, r, table, err := runFaulty(t, data, to, faulty.Fault{Op: op, Skip: k, Count: 1, Late: late, Err: syscall.EIO})
				if table.Struck() == 0 {
					if k == 0 && slices.Contains(must, op) {
						t.Errorf("%s: never called", op)
					}
					break
				}
				checkEither(t, when, listed(t, r), err)
				if err == nil && slices.Contains(must, op) {
					t.Errorf("%s: got no error", when)
				}
				if err != nil {
					store.checkClean(t, when)
				}
				store.checkFree(t, when)
			}
		}
	}
}

// checkEither wants a backup without an error or the other way round.
func checkEither(t *testing.T, when string, states []catalog.State, err error) {
	t.Helper()
	if err != nil && len(states) > 0 {
		t.Errorf("%s: got %v, but listed are %v", when, err, states)
	}
	if err == nil && len(states) != 1 {
		t.Errorf("%s: no error, but listed are %v", when, states)
	}
	if slices.Contains(states, catalog.Incomplete) || slices.Contains(states, catalog.Bad) {
		t.Errorf("%s: listed are %v", when, states)
	}
}

// TestShortWriteIsNoSuccess: a sink that takes less than it was given and says nothing.
func TestShortWriteIsNoSuccess(t *testing.T) {
	t.Parallel()
	for n := int64(0); n < 500; n += 50 {
		store, r, table, err := runFaulty(t, small(t), nil, faulty.Fault{Op: faulty.Write, After: n, Total: true, Short: true, Count: 1})
		if err == nil || table.Struck() == 0 || len(listed(t, r)) > 0 {
			t.Errorf("short write at %d: got %v, listed %v", n, err, listed(t, r))
		}
		store.checkClean(t, fmt.Sprint("short write at ", n))
	}
}

// TestWhatCannotBeRemovedIsTold: the disk is full and then read-only. What is left is told, and not listed as whole.
func TestWhatCannotBeRemovedIsTold(t *testing.T) {
	t.Parallel()
	_, r, _, err := runFaulty(t, small(t), nil,
		faulty.Fault{Op: faulty.Create, Pattern: "*/*/" + catalog.ManifestObject, Err: syscall.ENOSPC},
		faulty.Fault{Op: faulty.Remove, Err: syscall.EROFS})
	if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "remove leftovers") {
		t.Errorf("got %v, want both errors", err)
	}
	if got := listed(t, r); !slices.Equal(got, []catalog.State{catalog.Incomplete}) {
		t.Errorf("listed: got %v, want one incomplete", got)
	}
}

// TestOneOfTwoRepositories breaks one of two at every operation: the other has the backup, and the result says who has
// not.
func TestOneOfTwoRepositories(t *testing.T) {
	t.Parallel()
	data := small(t)
	for _, op := range []faulty.Op{faulty.Create, faulty.Write, faulty.Commit, faulty.List, faulty.Lock} {
		for k := 0; ; k++ {
			when := fmt.Sprintf("%s number %d", op, k)
			good, bad, table := newMemory(), newMemory(), faulty.New()
			both := []*catalog.Repository{repository(t, table.Wrap(bad)), repository(t, good)}
			table.Set(faulty.Fault{Op: op, Skip: k, Err: syscall.EIO})
			o := options(t, play(data))
			o.VolumeSize = 100
			if k%2 == 1 {
				o.Recipients, _ = operator(t)
			}
			result, err := Run(t.Context(), target(both...), o)
			struck := table.Struck()
			table.Set()
			if struck == 0 {
				break
			}
			if err != nil || len(listed(t, both[1])) != 1 {
				t.Fatalf("%s: got %v, listed %v; want a backup in the other", when, err, listed(t, both[1]))
			}
			if states := listed(t, both[0]); len(states) == 0 {
				bad.checkClean(t, when)
				if len(result.Failed) == 0 || !errors.Is(errors.Join(result.Failed...), syscall.EIO) {
					t.Errorf("%s: got %v in Failed, want EIO", when, result.Failed)
				}
			} else if states[0] != catalog.Complete && states[0] != catalog.Warning {
				t.Errorf("%s: the broken one lists %v", when, states)
			}
			good.checkFree(t, when)
			bad.checkFree(t, when)
		}
	}
}

// TestLostRepositories: those that could not be opened are told like those that failed later.
func TestLostRepositories(t *testing.T) {
	t.Parallel()
	lost := errors.New("the disk is not mounted")
	r := repository(t, newMemory())
	to := target(r)
	to.Lost = []error{lost}
	result, err := Run(t.Context(), to, options(t, play(small(t))))
	if err != nil || !slices.Equal(result.Failed, []error{lost}) {
		t.Fatalf("got %v, %v", result, err)
	}
	if w := result.Manifest.Warnings; len(w) != 1 || !strings.Contains(w[0], lost.Error()) {
		t.Errorf("warnings: got %q", w)
	}
	if got := listed(t, r); !slices.Equal(got, []catalog.State{catalog.Warning}) {
		t.Errorf("listed: got %v", got)
	}
}

// TestPlainDiskFullAtEveryByte: the same for a plain stream into an object and into a writer.
func TestPlainDiskFullAtEveryByte(t *testing.T) {
	t.Parallel()
	data := small(t)
	store := newMemory()
	if _, err := RunFile(t.Context(), store, "x.zst", options(t, play(data))); err != nil {
		t.Fatal(err)
	}
	total := store.size()
	for n := range total {
		var sink *SinkError
		store, table := newMemory(), faulty.New(faulty.Fault{Op: faulty.Write, After: n, Err: syscall.ENOSPC})
		_, err := RunFile(t.Context(), table.Wrap(store), "x.zst", options(t, play(data)))
		if !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &sink) || len(store.names()) > 0 || store.writing > 0 {
			t.Fatalf("full at %d: got %v, left %v", n, err, store.names())
		}
		_, err = RunPlain(t.Context(), &fullWriter{room: int(n)}, options(t, play(data)))
		if !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &sink) {
			t.Fatalf("full at %d: got %v, want a SinkError", n, err)
		}
	}
}

// fullWriter takes room bytes.
type fullWriter struct{ room int }

func (w *fullWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.room)
	w.room -= n
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// TestPlainObjectFails: neither a Create nor a Commit that fails passes for a backup.
func TestPlainObjectFails(t *testing.T) {
	t.Parallel()
	for _, op := range []faulty.Op{faulty.Create, faulty.Commit} {
		store, table := newMemory(), faulty.New(faulty.Fault{Op: op, Err: syscall.EIO})
		result, err := RunFile(t.Context(), table.Wrap(store), "x.zst", options(t, play(small(t))))
		var sink *SinkError
		if result != nil || !errors.Is(err, syscall.EIO) || !errors.As(err, &sink) {
			t.Errorf("%s: got %v, %v, want a SinkError and no result", op, result, err)
		}
		if got := store.names(); len(got) > 0 || store.writing > 0 {
			t.Errorf("%s: left %q", op, got)
		}
	}
	var out bytes.Buffer
	if _, err := RunPlain(t.Context(), &out, options(t, play(small(t)))); err != nil || out.Len() == 0 {
		t.Errorf("good run: %v, %d bytes", err, out.Len())
	}
}
