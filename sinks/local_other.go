//go:build !linux

package sinks

import (
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func renameExclusive(*folder, string, string) error { return syscall.ENOTSUP }

func startWriteBack(*os.File, int64, int64) error { return nil }

func endWriteBack(*os.File, int64, int64) error { return nil }

func dropCache(*os.File) {}

func freeBytes(f *os.File) (int64, error) {
	var s unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(int(f.Fd()), &s) }); err != nil {
		return 0, err
	}
	blocks, unit := uint64(max(s.Bavail, 0)), uint64(max(s.Bsize, 1))
	if blocks > math.MaxInt64/unit {
		return math.MaxInt64, nil
	}
	return int64(blocks * unit), nil
}
