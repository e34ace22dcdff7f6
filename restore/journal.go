package restore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

// journal syncs the file system in the background while a restore writes to it, and notes which files are complete and
// on the disk, so that a later run can keep them. Syncing early also leaves little to do at the end.
//
// The notes are a text file of lines "version size\n", where version is the file's number in the stream. A line is
// written after the file system was synced, so what a line says holds after a crash, too.
//
// wrote and add may be called by several goroutines.
type journal struct {
	disk    *os.File // a directory of the file system
	log     *os.File // nil if nothing is noted
	every   int64    // bytes between two syncs
	written atomic.Int64
	wake    chan struct{}
	running sync.WaitGroup
	err     error // of a sync; belongs to the goroutine until it has ended

	mu      sync.Mutex
	pending bytes.Buffer // lines that are not written yet
}

const (
	syncEvery  = 64 << 20
	maxJournal = 1 << 30 // how much of a journal is read, in bytes
)

// startJournal begins to sync; one of close and discard must end it. log may be nil.
func startJournal(disk, log *os.File, every int64) *journal {
	if every == 0 {
		every = syncEvery
	}
	j := &journal{disk: disk, log: log, every: every, wake: make(chan struct{}, 1)}
	j.running.Go(func() {
		for range j.wake {
			if j.err == nil {
				j.err = j.flush()
			}
		}
	})
	return j
}

// openLog reads the journal in dir, cuts off what is not whole, and opens it to append. done holds the size of each
// complete file by its number.
func openLog(dir *os.Root) (log *os.File, done map[int]int64, err error) {
	log, err = dir.OpenFile(journalName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	done, end, err := readJournal(io.LimitReader(log, maxJournal))
	if err == nil {
		err = log.Truncate(end)
	}
	if err == nil {
		_, err = log.Seek(end, io.SeekStart)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read %q: %w", journalName, err), log.Close())
	}
	return log, done, nil
}

// readJournal reads lines until the first that is not whole; end is where that one begins.
func readJournal(r io.Reader) (done map[int]int64, end int64, err error) {
	done = make(map[int]int64)
	for b := bufio.NewReader(r); ; {
		line, err := b.ReadString('\n')
		if err == io.EOF {
			return done, end, nil
		}
		if err != nil {
			return nil, 0, err
		}
		version, size, ok := parseLine(line)
		if !ok {
			return done, end, nil
		}
		done[version] = size
		end += int64(len(line))
	}
}

// parseLine reads "version size\n".
func parseLine(line string) (version int, size int64, ok bool) {
	first, second, found := bytes.Cut([]byte(line[:len(line)-1]), []byte(" "))
	v, err1 := strconv.ParseUint(string(first), 10, 31)
	s, err2 := strconv.ParseUint(string(second), 10, 63)
	return int(v), int64(s), found && err1 == nil && err2 == nil
}

// wrote tells that so many bytes were written, and has them synced when it is time.
func (j *journal) wrote(n int64) {
	if j.written.Add(n) < j.every {
		return
	}
	select {
	case j.wake <- struct{}{}:
		j.written.Store(0)
	default: // the last sync is still to come
	}
}

// add notes that a file is complete.
func (j *journal) add(version int, size int64) {
	if j.log == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(&j.pending, "%d %d\n", version, size)
}

// flush syncs the file system and writes the lines of the files that were complete before. The lines are on the disk
// after the next sync.
func (j *journal) flush() error {
	j.mu.Lock()
	lines := bytes.Clone(j.pending.Bytes())
	j.pending.Reset()
	j.mu.Unlock()
	if err := syncFileSystem(j.disk); err != nil || len(lines) == 0 {
		return err
	}
	if _, err := j.log.Write(lines); err != nil {
		return fmt.Errorf("write %q: %w", journalName, err)
	}
	return nil
}

// close ends the journal of a restore that has failed, after it has noted all that is complete. Nobody may use it any
// more.
func (j *journal) close() error {
	err := j.stop()
	if j.log == nil {
		return err
	}
	if err == nil {
		err = j.flush()
	}
	if err == nil {
		err = j.log.Sync()
	}
	return errors.Join(err, j.log.Close())
}

// discard ends a journal that is not needed any more: everything is complete, and about to be synced otherwise.
func (j *journal) discard() error {
	err := j.stop()
	if j.log != nil {
		err = errors.Join(err, j.log.Close())
	}
	return err
}

// stop waits for the sync that is running.
func (j *journal) stop() error {
	close(j.wake)
	j.running.Wait()
	return j.err
}
