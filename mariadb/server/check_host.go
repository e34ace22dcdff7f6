package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const onServersHost = "run on the server's own host, or in its container; a proxy or a virtual IP must not stand between"

// checkHost makes sure that the data directory seen here is that of the server we talk to. The tool takes the files
// from here and the locks from there: with two servers the result is garbage that looks like a backup.
//
// A server locks its aria_log_control and ibdata1, and the kernel tells who holds a lock, whoever asks. The server tells
// the number of the thread that serves our connection. If that is a thread of the process that holds the lock, then the
// server is the one, whatever stands between us; if it is not, it is another server. Names of hosts and paths prove
// nothing: a proxy's other side often has the same ones.
//
// A server in a container may be invisible while its files are not. Then the redo log's checkpoint must be the one that
// the server reports.
func (c *checker) checkHost(ctx context.Context) {
	const what = "data directory"
	f := c.facts
	redo, err := os.Open(filepath.Join(f.RedoDir, "ib_logfile0"))
	if err == nil {
		defer redo.Close() // only read from
		_, err = os.ReadDir(f.DataDir)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		c.fail(what, err.Error(), "run as root or as the server's user")
		return
	case err != nil:
		c.fail(what, fmt.Sprintf("the server on %q keeps its data in %s, which is not here: %v", f.Hostname, f.DataDir, err), onServersHost)
		return
	}
	owner := lockOwner(filepath.Join(f.AriaLogDir, "aria_log_control"))
	if owner <= 0 {
		owner = lockOwner(filepath.Join(f.DataHome, "ibdata1"))
	}
	if owner > 0 {
		c.checkOwner(ctx, owner)
		return
	}
	same, err := c.server.sameCheckpoint(ctx, redo)
	switch {
	case err != nil:
		c.warn(what, fmt.Sprintf("%s could not be proven to be the server's: %v", f.DataDir, err), "give the user PROCESS, or "+onServersHost)
	case !same:
		c.fail(what, fmt.Sprintf("the server that answers (%q) is not the one whose data is in %s here", f.Hostname, f.DataDir), onServersHost)
	case owner == 0:
		c.warn(what, fmt.Sprintf("%s is like the server's, but no server has locked it", f.DataDir), onServersHost)
	default:
		c.ok(what, "%s holds the server's redo log", f.DataDir)
	}
	c.dataSize()
}

// checkOwner compares the process that owns the data directory with the server that answers.
func (c *checker) checkOwner(ctx context.Context, owner int) {
	const what = "data directory"
	f := c.facts
	thread, err := c.server.thread(ctx)
	switch {
	case err != nil:
		c.warn(what, fmt.Sprintf("%s belongs to process %d, which could not be proven to be the server: %v", f.DataDir, owner, err), onServersHost)
	case !hasThread(owner, thread):
		c.fail(what, fmt.Sprintf("the server that answers (%q) is not the one whose data is in %s here: that is process %d", f.Hostname, f.DataDir, owner), onServersHost)
		return
	default:
		c.ok(what, "%s belongs to the server, process %d", f.DataDir, owner)
	}
	c.dataSize()
}

// dataSize tells what a backup would have to copy.
func (c *checker) dataSize() {
	if d := c.facts.Data; d.Files > 0 {
		c.ok("data", "%d MiB in %d files", d.Bytes>>20, d.Files)
		return
	}
	c.warn("data", "its size could not be measured", "can all directories in "+c.facts.DataDir+" be read?")
}

// lockOwner returns the process that has locked a file, 0 if none has or the file can't be looked at, and -1 if it is one
// that is invisible from here, in another container or on another host.
func lockOwner(path string) int {
	file, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer file.Close() // only looked at
	lock := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
		return 0
	}
	if lock.Pid <= 0 {
		return -1
	}
	return int(lock.Pid)
}

// thread asks for the system's number of the thread that serves this connection, in the server's own view.
func (s *Conn) thread(ctx context.Context) (int, error) {
	rows, err := s.records(ctx, "SELECT TID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()")
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 {
		return 0, errors.New("the server does not show this connection")
	}
	return strconv.Atoi(rows[0]["TID"])
}

// hasThread tells whether process pid has a thread that calls itself by that number. A process in a container has other
// numbers inside than outside; the last of the kernel's list is the innermost.
func hasThread(pid, thread int) bool {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/status", pid)) // the pattern is well-formed
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(text)) {
			if list, ok := strings.CutPrefix(line, "NSpid:"); ok {
				if all := strings.Fields(list); len(all) > 0 && all[len(all)-1] == strconv.Itoa(thread) {
					return true
				}
			}
		}
	}
	return false
}

// sameCheckpoint compares the checkpoint in a redo log with the one the server reports. A checkpoint may happen between
// the two looks, so it looks a few times.
func (s *Conn) sameCheckpoint(ctx context.Context, redo io.ReaderAt) (bool, error) {
	const tries = 5
	for range tries {
		status, err := s.pairs(ctx, "SHOW GLOBAL STATUS LIKE 'Innodb_lsn_last_checkpoint'")
		if err != nil {
			return false, err
		}
		want, err := strconv.ParseUint(status["innodb_lsn_last_checkpoint"], 10, 64)
		if err != nil {
			return false, errors.New("the server does not tell its checkpoint")
		}
		got, err := checkpointLSN(redo)
		if err != nil {
			return false, err
		}
		if got == want {
			return true, nil
		}
	}
	return false, nil
}

// checkpointLSN reads the newest checkpoint out of a redo log. From MariaDB 10.8 on the file begins with "Phys" and has
// two checkpoint blocks at 4096 and 8192, each beginning with the LSN; before, at 512 and 1536, with the LSN after
// eight bytes of number. All are big-endian.
func checkpointLSN(redo io.ReaderAt) (uint64, error) {
	head := make([]byte, 8192+16)
	if _, err := redo.ReadAt(head, 0); err != nil {
		return 0, fmt.Errorf("read the redo log's head: %w", err)
	}
	if string(head[:4]) == "Phys" {
		return max(binary.BigEndian.Uint64(head[4096:]), binary.BigEndian.Uint64(head[8192:])), nil
	}
	return max(binary.BigEndian.Uint64(head[512+8:]), binary.BigEndian.Uint64(head[1536+8:])), nil
}
