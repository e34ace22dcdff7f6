package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/restore"
)

// trialPattern names the directories of trials; lockName is the file in each that its process holds a lock on.
const (
	trialPattern = "mbwrap-verify.*"
	lockName     = "lock"
)

// trialDir is the directory of one trial. While its process lives it holds a lock in it, so that what a dead one left
// behind can be told and removed.
type trialDir struct {
	path string
	lock *os.File
	most atomic.Int64 // bytes that it was seen to take
	done chan struct{}
	wait sync.WaitGroup
}

// newTrialDir makes a directory below parent, if need bytes are free there.
func newTrialDir(parent string, need int64) (*trialDir, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	sweep(parent)
	if err := checkRoom(parent, need); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(parent, trialPattern)
	if err != nil {
		return nil, err
	}
	d := &trialDir{path: path, done: make(chan struct{})}
	if d.lock, err = lockIn(path); err == nil {
		err = os.Chmod(path, 0o711) // the server's account must get through
	}
	if err != nil {
		return nil, errors.Join(err, d.remove())
	}
	d.wait.Go(d.watch)
	return d, nil
}

// lockIn makes the lock of a trial's directory and takes it.
func lockIn(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(os.NewSyscallError("flock", err), f.Close())
	}
	return f, nil
}

// sweep removes what trials have left whose process is dead. That it can't is not this trial's trouble: if room is short
// because of it, that is told.
func sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if ours, err := filepath.Match(trialPattern, e.Name()); err != nil || !ours || !e.IsDir() {
			continue
		}
		f, err := os.OpenFile(filepath.Join(parent, e.Name(), lockName), os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(filepath.Join(parent, e.Name())) // see above
		}
		_ = f.Close() // nothing was written
	}
}

// data is the directory that the backup is restored to.
func (d *trialDir) data() string { return filepath.Join(d.path, "data") }

// owner says whom the restored files should belong to, as restore.Options has it, and what there is to say about that.
func (d *trialDir) owner() (owner, note string) {
	if os.Geteuid() != 0 {
		return "", ""
	}
	u, err := user.Lookup("mysql")
	if err != nil {
		return "", ""
	}
	uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
	if uerr == nil && gerr == nil && passable(d.path, uint32(uid), uint32(gid)) {
		return "", ""
	}
	return "0:0", fmt.Sprintf("the server ran as root, because %s can't be reached by the account mysql", d.path)
}

// passable tells whether an account may pass through dir and all above it, as far as the modes tell.
func passable(dir string, uid, gid uint32) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		s, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return false
		}
		bit := fs.FileMode(0o001)
		if s.Uid == uid {
			bit = 0o100
		} else if s.Gid == gid {
			bit = 0o010
		}
		if info.Mode()&bit == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// watch looks now and then how much space is taken, more rarely where a look takes long.
func (d *trialDir) watch() {
	for {
		begun := time.Now()
		d.look()
		timer := time.NewTimer(max(time.Second, 20*time.Since(begun)))
		select {
		case <-d.done:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// look takes notice of the space that is taken now.
func (d *trialDir) look() {
	now := taken(d.path)
	for most := d.most.Load(); now > most && !d.most.CompareAndSwap(most, now); most = d.most.Load() {
	}
}

// stopWatch ends the watch and returns the most that was seen, in bytes.
func (d *trialDir) stopWatch() int64 {
	close(d.done)
	d.wait.Wait()
	return d.most.Load()
}

// taken returns the bytes that the files below dir take on the disk. What vanishes meanwhile takes none.
func taken(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += s.Blocks * 512
			}
		}
		return nil
	})
	return sum
}

// remove removes the directory with all that is in it.
func (d *trialDir) remove() error {
	err := os.RemoveAll(d.path)
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}

// keep gives up the directory and leaves it, without the mark of a trial.
func (d *trialDir) keep() error {
	return errors.Join(os.Remove(d.lock.Name()), d.lock.Close())
}

// full returns an error if the file system has no room left.
func (d *trialDir) full() error { return checkRoom(d.path, prepareRoom/4) }

// nearest returns dir, or what is above it as far as it is absent.
func nearest(dir string) string {
	for parent := filepath.Dir(dir); parent != dir; parent = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		dir = parent
	}
	return dir
}

// checkRoom compares what is needed with what is free. The error is a *restore.SpaceError.
func checkRoom(dir string, need int64) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return os.NewSyscallError("statfs", err)
	}
	if free := int64(s.Bavail) * s.Bsize; need > free {
		return &restore.SpaceError{Target: dir, Need: need, Free: free}
	}
	return nil
}
