package sinks

import (
	"errors"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// renameExclusive is rename(2) that fails with EEXIST where it would replace.
func renameExclusive(d *folder, from, to string) error {
	fd := int(d.file.Fd())
	return retry(func() error { return unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE) })
}

// startWriteBack asks the kernel to begin writing a range of f to the disk.
func startWriteBack(f *os.File, offset, size int64) error {
	return syncRange(f, offset, size, unix.SYNC_FILE_RANGE_WRITE)
}

// endWriteBack waits until a range of f is written and forgets its pages, so that a backup does not push out what the
// database server keeps in the page cache.
func endWriteBack(f *os.File, offset, size int64) error {
	const wait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	if err := syncRange(f, offset, size, wait); err != nil {
		return err
	}
	_ = unix.Fadvise(int(f.Fd()), offset, size, unix.FADV_DONTNEED) // advice
	return nil
}

// syncRange calls sync_file_range(2). That it is not supported does not matter, fsync comes later; but a failed write
// must be reported here: the kernel tells it once for each descriptor, so fsync would not repeat it.
func syncRange(f *os.File, offset, size int64, flags int) error {
	err := retry(func() error { return unix.SyncFileRange(int(f.Fd()), offset, size, flags) })
	if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ESPIPE) ||
		errors.Is(err, syscall.EOPNOTSUPP) {
		return nil
	}
	return err
}

// dropCache forgets the pages of a file that is on the disk.
func dropCache(f *os.File) {
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) // advice
}

// freeBytes returns what an unprivileged user can still write to the file system of f.
func freeBytes(f *os.File) (int64, error) {
	var s unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(int(f.Fd()), &s) }); err != nil {
		return 0, err
	}
	unit := uint64(max(s.Frsize, 1))
	if s.Bavail > math.MaxInt64/unit {
		return math.MaxInt64, nil
	}
	return int64(s.Bavail * unit), nil
}
