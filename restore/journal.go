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
	"time"
)

// journal notes which files of a restore are complete and on the disk, so that a later run can keep them. It is a text
// file of lines "version size\n", where version is the file's number in the stream. A line is written after the file
// system was synced, so what a line says holds after a crash, too.
//
// add may be called by several goroutines.
type journal struct {
	log    *os.File
	disk   *os.File // a directory of the file system to sync
	limits journalLimits

	mu       sync.Mutex
	pending  bytes.Buffer // lines that are not written yet
	size     int64        // bytes of the files in them
	last     time.Time
	flushing bool
	err      error
	running  sync.WaitGroup
}

// journalLimits say when it is time to sync: after so many bytes of complete files, or after so long.
type journalLimits struct {
	bytes int64
	wait  time.Duration
}

// usualLimits lose little work and cost little.
func usualLimits() journalLimits { return journalLimits{1 << 30, 10 * time.Second} }

// maxJournal is how much of a journal is read, in bytes.
const maxJournal = 1 << 30

// openJournal reads the journal in dir, cuts off what is not whole, and opens it to append. done holds the size of each
// complete file by its number.
func openJournal(dir *os.Root, disk *os.File) (j *journal, done map[int]int64, err error) {
	log, err := dir.OpenFile(journalName, os.O_RDWR|os.O_CREATE, 0o600)
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
	return &journal{log: log, disk: disk, limits: usualLimits(), last: time.Now()}, done, nil
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

// add notes that a file is complete, and sees that it is synced and written when it is time.
func (j *journal) add(version int, size int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(&j.pending, "%d %d\n", version, size)
	j.size += size
	if j.flushing || j.err != nil || j.size < j.limits.bytes && time.Since(j.last) < j.limits.wait {
		return
	}
	j.flushing = true
	j.running.Go(func() { j.keep(j.flush()) })
}

// keep notes how a flush ended.
func (j *journal) keep(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.flushing, j.last = false, time.Now()
	if j.err == nil {
		j.err = err
	}
}

// flush syncs the file system and writes the lines of the files that were complete before.
func (j *journal) flush() error {
	j.mu.Lock()
	lines := bytes.Clone(j.pending.Bytes())
	j.pending.Reset()
	j.size = 0
	j.mu.Unlock()
	if len(lines) == 0 {
		return nil
	}
	if err := syncFileSystem(j.disk); err != nil {
		return err
	}
	if _, err := j.log.Write(lines); err != nil {
		return fmt.Errorf("write %q: %w", journalName, err)
	}
	return j.log.Sync()
}

// close writes what is still to be written, and ends the journal. Nobody may add any more.
func (j *journal) close() error {
	j.running.Wait()
	err := j.err
	if err == nil {
		err = j.flush()
	}
	return errors.Join(err, j.log.Close())
}

// discard ends a journal that is not needed any more: everything is complete and synced otherwise.
func (j *journal) discard() error {
	j.running.Wait()
	return errors.Join(j.err, j.log.Close())
}
