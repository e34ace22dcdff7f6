package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// target is the directory that a restore makes or fills.
type target struct {
	path       string // absolute
	info       fs.FileInfo
	entries    []string // names in it
	unfinished bool     // it holds an unfinished restore
}

// inspect looks at the target and touches nothing.
func inspect(name string) (*target, error) {
	if name == "" {
		return nil, errors.New("no target directory given")
	}
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	t := &target{path: name}
	t.info, err = os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		t.info = nil
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	if !t.info.IsDir() {
		return nil, &NotEmptyError{Target: name}
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		switch {
		case e.Name() == lostFound && e.IsDir():
		case e.Name() == unfinishedName && e.IsDir():
			t.unfinished = true
		default:
			t.entries = append(t.entries, e.Name())
		}
	}
	if len(t.entries) > 0 && !t.unfinished {
		return nil, &NotEmptyError{Target: name, Entry: t.entries[0]}
	}
	return t, nil
}

// unfinishedDir returns the path of the directory in which the work is done.
func (t *target) unfinishedDir() string { return filepath.Join(t.path, unfinishedName) }

// work is an unfinished restore that this process holds the lock of.
type work struct {
	target *target
	root   *os.Root // of the target
	dir    *os.Root // of the directory of the unfinished restore
	data   *os.Root // of the files
	disk   *os.File // the directory of the files, opened before anything is written
	lock   *os.File
	state  *state
	resume bool // there was an unfinished run of the same source
	fresh  bool // what is in dir was made by this run, and is nothing worth keeping yet
}

// begin makes the target if it is absent, takes the lock, and reads or writes the state. The target must hold nothing
// or an unfinished restore of the same source. When begin fails it has left nothing new behind, as far as it could.
func (t *target) begin(s source, version string) (*work, error) {
	if err := t.make(); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(t.path)
	if err != nil {
		return nil, err
	}
	w := &work{target: t, root: root, fresh: t.info == nil}
	err = w.enter()
	if err == nil {
		err = w.load(s, version)
	}
	if err != nil {
		if w.fresh {
			err = errors.Join(err, w.abandon())
		}
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// make makes an absent target.
func (t *target) make() error {
	if t.info != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(t.path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(t.path, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// enter opens the directory of the unfinished restore, which it makes if it is absent, and takes the lock in it.
func (w *work) enter() error {
	err := w.root.Mkdir(unfinishedName, dirMode)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	w.fresh = err == nil
	if w.dir, err = w.root.OpenRoot(unfinishedName); err != nil {
		return err
	}
	if w.lock, err = w.dir.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	err = unix.Flock(int(w.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		w.fresh = false // the other run was faster with the lock
		return &LockedError{w.target.path}
	}
	if err != nil {
		return os.NewSyscallError("flock", err)
	}
	// The run that held the lock may have finished in between and removed the file that was opened.
	held, err := w.lock.Stat()
	if err != nil {
		return err
	}
	there, err := w.root.Lstat(path.Join(unfinishedName, lockName))
	if err != nil || !os.SameFile(held, there) {
		w.fresh = false
		return &LockedError{w.target.path}
	}
	return nil
}

// load takes up the state of an unfinished run of s, or begins a new one.
func (w *work) load(s source, version string) error {
	w.fresh = false
	old, err := readState(w.dir)
	if err != nil {
		return &UnfinishedError{Dir: w.target.unfinishedDir(), Err: err}
	}
	if old == nil {
		if len(w.target.entries) > 0 {
			return &NotEmptyError{Target: w.target.path, Entry: w.target.entries[0]}
		}
		w.fresh = true
		w.state = &state{
			Source: s, Phase: PhaseExtract, Started: time.Now().UTC(), Mbwrap: version, Created: w.target.info == nil,
		}
		if err := writeState(w.dir, w.state); err != nil {
			return err
		}
		return w.openData()
	}
	if old.Source != s {
		return &UnfinishedError{Dir: w.target.unfinishedDir(), What: old.Source.String()}
	}
	for _, name := range w.target.entries {
		if !slices.Contains(old.Entries, name) {
			return &NotEmptyError{Target: w.target.path, Entry: name}
		}
	}
	w.state, w.resume = old, true
	return w.openData()
}

// openData opens the directory of the files, which it makes if it is absent.
func (w *work) openData() error {
	err := w.dir.Mkdir(dataName, dirMode)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if w.data, err = w.dir.OpenRoot(dataName); err != nil {
		return err
	}
	w.disk, err = w.data.Open(".")
	return err
}

// dataPath returns the absolute path of the directory of the files.
func (w *work) dataPath() string { return filepath.Join(w.target.unfinishedDir(), dataName) }

// phase notes durably that a phase begins.
func (w *work) phase(p Phase) error {
	w.state.Phase = p
	return writeState(w.dir, w.state)
}

// startOver throws away what an unfinished run has made, what it has moved up already included.
func (w *work) startOver() error {
	for _, name := range w.state.Entries {
		if err := w.root.Rename(name, path.Join(unfinishedName, dataName, name)); err != nil && !absent(err) {
			return err
		}
	}
	if err := w.clear(nil); err != nil {
		return err
	}
	if err := w.dir.Remove(journalName); err != nil && !absent(err) {
		return err
	}
	w.state.Phase, w.state.Entries, w.state.Prepares = PhaseExtract, nil, 0
	w.state.forget()
	return writeState(w.dir, w.state)
}

// clear removes all files that keep does not name, and the directories that become empty.
func (w *work) clear(keep map[string]bool) error {
	err := fs.WalkDir(w.data.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || keep[name] {
			return err
		}
		return w.data.Remove(name)
	})
	if err != nil {
		return err
	}
	return w.prune()
}

// prune removes the empty directories: the stream knows files only.
func (w *work) prune() error {
	var dirs []string
	err := fs.WalkDir(w.data.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, name)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs[1:]) {
		err := w.data.Remove(dir)
		if err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
			return err
		}
	}
	return nil
}

// finish removes the directory of the restore, which is finished. The state goes last: as long as it is there a later
// run knows that there is nothing left to do but this.
func (w *work) finish() error {
	if err := w.dir.RemoveAll(dataName); err != nil {
		return err
	}
	for _, name := range []string{journalName, stateName + ".new", lockName, stateName} {
		if err := w.dir.Remove(name); err != nil && !absent(err) {
			return err
		}
	}
	if err := w.root.Remove(unfinishedName); err != nil {
		return err
	}
	return syncOne(w.root, ".")
}

// abandon removes the directory of a restore that has not made anything yet.
func (w *work) abandon() error {
	err := w.root.RemoveAll(unfinishedName)
	if w.target.info == nil {
		err = errors.Join(err, os.Remove(w.target.path))
	}
	return err
}

// close lets go of everything, the lock included. It may be called at any time.
func (w *work) close() error {
	var all []error
	if w.disk != nil {
		all = append(all, w.disk.Close())
	}
	if w.lock != nil {
		all = append(all, w.lock.Close())
	}
	for _, r := range []*os.Root{w.data, w.dir, w.root} {
		if r != nil {
			all = append(all, r.Close())
		}
	}
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("close %q: %w", w.target.path, err)
	}
	return nil
}
