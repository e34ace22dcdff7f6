package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/sinks/faulty"
)

// judge says what is wrong with a sink after a run that ended with err: a backup that was reported must be whole, and of
// one that was not, nothing may be there.
func judge(sink *memory, err error, j job) error {
	r, oerr := Open(context.Background(), sink, "after")
	if oerr != nil {
		return oerr
	}
	if err != nil {
		if left := sink.names("db1"); len(left) > 0 {
			return fmt.Errorf("objects are left: %q", left)
		}
	} else {
		b, ferr := r.Find(context.Background(), "db1", Latest)
		if ferr != nil {
			return ferr
		}
		if perr := j.prove(b); perr != nil {
			return perr
		}
	}
	if len(sink.locks) > 0 {
		return fmt.Errorf("locks are left: %v", sink.locks)
	}
	return nil
}

// steps returns a fault for every single operation of a run, with lost answers.
func steps(t *testing.T, j job) []faulty.Fault {
	t.Helper()
	sink, count := newMemory(), faulty.New()
	r := repositories(t, sink)[0]
	if _, err := j.run(t.Context(), "db1", through(r, count.Wrap(sink))); err != nil {
		t.Fatal(err)
	}
	var all []faulty.Fault
	for _, op := range []faulty.Op{faulty.Lock, faulty.List, faulty.Create, faulty.Write, faulty.Commit, faulty.Unlock} {
		for k := range count.Calls(op) {
			all = append(all, faulty.Fault{Op: op, Skip: k, Count: 1, Err: errBoom})
			if op == faulty.Create || op == faulty.Commit {
				all = append(all, faulty.Fault{Op: op, Skip: k, Count: 1, Err: errBoom, Late: true})
			}
			if op == faulty.Write {
				all = append(all, faulty.Fault{Op: op, Skip: k, Count: 1, Short: true})
			}
		}
		if count.Calls(op) == 0 {
			t.Errorf("a run never calls %s", op)
		}
	}
	return all
}

func describe(f faulty.Fault) string {
	return fmt.Sprintf("%s %d late=%v short=%v", f.Op, f.Skip, f.Late, f.Short)
}

// TestEveryStepFails lets each operation of a run fail. An unlock that fails after the commit does not undo the backup.
func TestEveryStepFails(t *testing.T) {
	job{stream: longStream(t), volumes: 4096}.plainAndSealed(t, everyStepFails)
}

func everyStepFails(t *testing.T, j job) {
	for _, fault := range steps(t, j) {
		sink, faults := newMemory(), faulty.New(fault)
		r := repositories(t, sink)[0]
		p, err := j.run(t.Context(), "db1", through(r, faults.Wrap(sink)))
		if faults.Struck() != 1 {
			t.Errorf("%s: struck %d times", describe(fault), faults.Struck())
		}
		wantErr := fault.Op != faulty.Unlock
		if (err != nil) != wantErr {
			t.Errorf("%s: got error %v", describe(fault), err)
		}
		if wantErr && !fault.Short && !errors.Is(err, errBoom) {
			t.Errorf("%s: got error %v, want %v", describe(fault), err, errBoom)
		}
		if !wantErr && len(p.Failed()) != 1 {
			t.Errorf("%s: Failed says %v", describe(fault), p.Failed())
		}
		if err := judge(sink, err, j); err != nil {
			t.Errorf("%s: %v", describe(fault), err)
		}
	}
}

// TestOneOfTwoFails lets each operation fail in one of two repositories, and lets that one be lost for good from then on.
// The other gets its backup.
func TestOneOfTwoFails(t *testing.T) {
	job{stream: longStream(t), volumes: 4096}.plainAndSealed(t, oneOfTwoFails)
}

func oneOfTwoFails(t *testing.T, j job) {
	for i, fault := range steps(t, j) {
		if raceDetector && j.key != nil && i%3 > 0 {
			continue // each seal is slow
		}
		for _, lost := range []bool{false, true} {
			for _, which := range []int{0, 1} {
				name := fmt.Sprintf("%s in %d, lost=%v", describe(fault), which, lost)
				sinks := []*memory{newMemory(), newMemory()}
				all := repositories(t, sinks[0], sinks[1])
				table := []faulty.Fault{fault}
				if lost {
					table = append(table, faulty.Fault{Op: faulty.Remove, Err: errBoom}, faulty.Fault{Op: faulty.Unlock, Err: errBoom},
						faulty.Fault{Op: faulty.Abort, Err: errBoom})
				}
				all[which] = through(all[which], faulty.New(table...).Wrap(sinks[which]))
				p, err := j.run(t.Context(), "db1", all...)
				if err != nil {
					t.Errorf("%s: got error %v", name, err)
					continue
				}
				var at *RepositoryError
				if failed := p.Failed(); len(failed) != 1 || !errors.As(failed[0], &at) || at.Location != all[which].location {
					t.Errorf("%s: Failed says %v", name, failed)
				}
				if err := judge(sinks[1-which], nil, j); err != nil {
					t.Errorf("%s: the good one: %v", name, err)
				}
				if !lost {
					bad := errBoom
					if fault.Op == faulty.Unlock { // after the commit
						bad = nil
					}
					if err := judge(sinks[which], bad, j); err != nil {
						t.Errorf("%s: the bad one: %v", name, err)
					}
				}
				if lost && fault.Op != faulty.Unlock && !(fault.Late && fault.Op == faulty.Commit) {
					if b, err := all[which].Find(t.Context(), "db1", Latest); err == nil {
						t.Errorf("%s: the bad one lists %s", name, b.ID)
					}
				}
			}
		}
	}
}

// TestBothFail at different steps: the run fails and says both.
func TestBothFail(t *testing.T) {
	job{stream: longStream(t), volumes: 4096}.plainAndSealed(t, bothFail)
}

func bothFail(t *testing.T, j job) {
	other := errors.New("other")
	a, b := newMemory(), newMemory()
	all := repositories(t, a, b)
	all[0] = through(all[0], faulty.New(faulty.Fault{Op: faulty.Write, Skip: 1, Count: 1, Err: errBoom}).Wrap(a))
	all[1] = through(all[1], faulty.New(faulty.Fault{Op: faulty.Commit, Skip: 4, Count: 1, Err: other}).Wrap(b))
	_, err := j.run(t.Context(), "db1", all...)
	if !errors.Is(err, errBoom) || !errors.Is(err, other) {
		t.Errorf("got error %v, want both causes", err)
	}
	for i, sink := range []*memory{a, b} {
		if err := judge(sink, err, j); err != nil {
			t.Errorf("repository %d: %v", i, err)
		}
	}
}

// TestDiskFullAtEveryByte: a disk that is full at byte n of everything that a backup writes.
func TestDiskFullAtEveryByte(t *testing.T) {
	m := newMaker(t)
	m.file("xtrabackup_info", 20)
	job{stream: m.data.Bytes()}.plainAndSealed(t, diskFullAtEveryByte)
}

func diskFullAtEveryByte(t *testing.T, j job) {
	sink := newMemory()
	j.mustRun(t, "db1", repositories(t, sink)...)
	total := int64(0)
	for _, name := range sink.names("db1") {
		total += int64(len(sink.objects[name]))
	}
	step := int64(1)
	if j.key != nil {
		step = 5 // each seal is slow
	}
	if raceDetector || testing.Short() {
		step *= 7
	}
	for n := int64(0); n < total; n += step {
		sink := newMemory()
		r := repositories(t, sink)[0]
		full := faulty.New(faulty.Fault{Op: faulty.Write, After: n, Total: true, Err: syscall.ENOSPC})
		_, err := j.run(t.Context(), "db1", through(r, full.Wrap(sink)))
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("full at %d of %d: got error %v, want %v", n, total, err, syscall.ENOSPC)
		}
		if err := judge(sink, err, j); err != nil {
			t.Fatalf("full at %d of %d: %v", n, total, err)
		}
	}
}

// TestTidyingFails: what can't be removed is told, and is not taken for a backup.
func TestTidyingFails(t *testing.T) {
	j := job{stream: longStream(t), volumes: 4096}
	left := errors.New("left")
	sink := newMemory()
	r := repositories(t, sink)[0]
	faults := faulty.New(faulty.Fault{Op: faulty.Commit, Pattern: "*/*/" + ManifestObject, Err: errBoom},
		faulty.Fault{Op: faulty.Remove, Err: left})
	_, err := j.run(t.Context(), "db1", through(r, faults.Wrap(sink)))
	if !errors.Is(err, errBoom) || !errors.Is(err, left) {
		t.Errorf("got error %v, want both causes", err)
	}
	list, lerr := r.List(t.Context(), "db1")
	if lerr != nil || len(list) != 1 || list[0].State != Incomplete {
		t.Errorf("got %d backups (%v), want an incomplete one", len(list), lerr)
	}
}

// mortal is a sink whose process dies at its k-th operation: before it does anything, or after, so that nobody hears of
// it. From then on nothing happens any more, not even tidying up.
type mortal struct {
	*memory
	mutex sync.Mutex
	left  int
	after bool // the last operation is done
	dead  bool
	locks []sinks.Lock
}

var errDead = errors.New("dead")

// step does an operation unless the process is dead.
func (m *mortal) step(do func() error) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.dead {
		return errDead
	}
	m.left--
	m.dead = m.left < 0
	if m.dead && !m.after {
		return errDead
	}
	if err := do(); err != nil || !m.dead {
		return err
	}
	return errDead
}

func (m *mortal) Create(ctx context.Context, name string) (w sinks.Writer, err error) {
	err = m.step(func() error {
		inner, err := m.memory.Create(ctx, name)
		w = &mortalWriter{inner, m}
		return err
	})
	return w, err
}

func (m *mortal) List(ctx context.Context, prefix string) (list []sinks.Info, err error) {
	err = m.step(func() error {
		list, err = m.memory.List(ctx, prefix)
		return err
	})
	return list, err
}

func (m *mortal) Remove(ctx context.Context, name string) error {
	return m.step(func() error { return m.memory.Remove(ctx, name) })
}

func (m *mortal) Lock(ctx context.Context, name string, owner []byte) (lock sinks.Lock, err error) {
	err = m.step(func() error {
		inner, err := m.memory.Lock(ctx, name, owner)
		if err == nil {
			m.locks = append(m.locks, inner)
		}
		lock = mortalLock{inner, m}
		return err
	})
	return lock, err
}

// bury does what the kernel does for the dead: it frees the locks.
func (m *mortal) bury() {
	for _, l := range m.locks {
		l.Unlock()
	}
}

type mortalWriter struct {
	sinks.Writer
	sink *mortal
}

func (w *mortalWriter) Write(p []byte) (n int, err error) {
	err = w.sink.step(func() error {
		n, err = w.Writer.Write(p)
		return err
	})
	return n, err
}

func (w *mortalWriter) Commit() error { return w.sink.step(w.Writer.Commit) }
func (w *mortalWriter) Abort() error  { return w.sink.step(w.Writer.Abort) }

type mortalLock struct {
	sinks.Lock
	sink *mortal
}

func (l mortalLock) Unlock() error { return l.sink.step(l.Lock.Unlock) }

// TestDeathAtEveryStep: whatever a dead run leaves behind, it is either a whole backup or none, and the next run works.
func TestDeathAtEveryStep(t *testing.T) {
	job{stream: longStream(t), volumes: 4096}.plainAndSealed(t, deathAtEveryStep)
}

func deathAtEveryStep(t *testing.T, j job) {
	step := 1
	if raceDetector && j.key != nil {
		step = 3 // each seal is slow
	}
	for k := 0; ; k += step {
		died := false
		for _, after := range []bool{false, true} {
			sink := newMemory()
			r := repositories(t, sink)[0]
			dying := &mortal{memory: sink, left: k, after: after}
			_, err := j.run(t.Context(), "db1", through(r, dying))
			dying.bury()
			died = died || dying.dead
			manifest := slices.ContainsFunc(sink.names("db1"), func(name string) bool { return strings.HasSuffix(name, "/"+ManifestObject) })
			b, ferr := r.Find(t.Context(), "db1", Latest)
			switch {
			case !manifest && !errors.Is(ferr, ErrNoBackup):
				t.Errorf("died at step %d: got %+v (%v), want no backup", k, b, ferr)
			case manifest && ferr != nil:
				t.Errorf("died at step %d: %v", k, ferr)
			case manifest:
				if err := j.prove(b); err != nil {
					t.Errorf("died at step %d: what is listed is not whole: %v", k, err)
				}
			case err == nil:
				t.Errorf("died at step %d: the run said that it had worked", k)
			}
			next, err := j.run(t.Context(), "db1", r)
			if err != nil {
				t.Fatalf("died at step %d: the next run: %v", k, err)
			}
			if b, err := r.Find(t.Context(), "db1", next.ID); err != nil || j.prove(b) != nil {
				t.Errorf("died at step %d: the next run's backup: %v", k, err)
			}
		}
		if !died {
			if k < 20 {
				t.Errorf("a run has only %d steps", k)
			}
			return
		}
	}
}

// TestTaken: an object that stands where one of ours should go is not touched.
func TestTaken(t *testing.T) {
	names := []string{"data.0001.xbs", indexObject, logObject, SumsObject, ManifestObject}
	secret := []string{"data.0001.xbs.age", KeyObject, indexObject + sealedSuffix, logObject + sealedSuffix}
	for i, name := range append(secret, names...) {
		sink := newMemory()
		r := repositories(t, sink)[0]
		full := "db1/" + beganID + "/" + name
		j := job{stream: longStream(t)}
		if i < len(secret) {
			j = j.sealed(t)
		}
		// It appears after the ID was chosen: a sink without locks may have two runs.
		_, err := j.run(t.Context(), "db1", through(r, &lateComer{memory: sink, name: full, make: func() { sink.put(full, []byte("another's")) }}))
		if !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: got error %v, want %v", name, err, fs.ErrExist)
		}
		if got := sink.names("db1"); !slices.Equal(got, []string{full}) || string(sink.objects[full]) != "another's" {
			t.Errorf("%s: left %q", name, got)
		}
	}
}

// lateComer puts another's object in place just before ours is committed.
type lateComer struct {
	*memory
	name string
	make func()
}

func (l *lateComer) Create(ctx context.Context, name string) (sinks.Writer, error) {
	w, err := l.memory.Create(ctx, name)
	if name == l.name && err == nil {
		l.make()
	}
	return w, err
}
