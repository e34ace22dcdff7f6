package restore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// prepareRoom is what a prepare may need besides the files and the redo log, in bytes: temporary tables and undo.
const prepareRoom = 16 << 20

// room is what a file system has free.
type room struct {
	bytes, files int64 // files is negative if the file system has no limit
}

// freeRoom looks at the file system that the directory is on, or will be on.
func freeRoom(dir string) (room, error) {
	var s unix.Statfs_t
	for {
		err := unix.Statfs(dir, &s)
		if err == nil {
			break
		}
		if err == unix.EINTR {
			continue
		}
		parent := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || parent == dir {
			return room{}, os.NewSyscallError("statfs", err)
		}
		dir = parent
	}
	r := room{bytes: int64(s.Bavail) * s.Bsize, files: -1}
	if s.Files > 0 {
		r.files = int64(s.Ffree)
	}
	return r, nil
}

// checkSpace compares what is needed with what is free, before anything is written.
func checkSpace(target string, bytes, files int64) error {
	free, err := freeRoom(target)
	if err != nil {
		return err
	}
	if bytes > free.bytes {
		return &SpaceError{Target: target, Need: bytes, Free: free.bytes}
	}
	if free.files >= 0 && files > free.files {
		return &SpaceError{Target: target, Need: files, Free: free.files, Inodes: true}
	}
	return nil
}

// explainFull makes a *SpaceError of an error that says that the target's file system, or a quota on it, is full.
func explainFull(target string, err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	full := &SpaceError{Target: target, Err: err}
	if free, ferr := freeRoom(target); ferr == nil {
		full.Free = free.bytes
		full.Inodes = free.files == 0
	}
	return full
}

// allocated returns the bytes that the files below root take on the disk.
func allocated(root *os.Root) (int64, error) {
	var sum int64
	err := fs.WalkDir(root.FS(), ".", func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			sum += s.Blocks * 512
		}
		return nil
	})
	return sum, err
}
