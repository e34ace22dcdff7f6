package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// syncFileSystem writes everything of dir's file system to the disk. Kernels before 5.8 tell of no errors.
func syncFileSystem(dir *os.File) error {
	return os.NewSyscallError("syncfs", unix.Syncfs(int(dir.Fd())))
}

// syncers is how many files are synced at a time. More only queue up in the file system.
const syncers = 8

// syncTree makes everything in root durable and returns the first error of any write to it. dir is root's directory, and
// must have been opened before the first write: newer kernels report on it what went wrong since.
//
// The file system as a whole is synced first, which is fast for many files. Every file is synced after that all the
// same: it costs little when it is clean, and it is what old kernels and some file systems tell errors on.
func syncTree(ctx context.Context, root *os.Root, dir *os.File) error {
	if err := syncFileSystem(dir); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(syncers)
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if entry.IsDir() || entry.Type().IsRegular() {
			group.Go(func() error { return syncOne(root, name) })
		}
		return nil
	})
	if waited := group.Wait(); waited != nil {
		return waited // the walk's own error is then no more than the end of its context
	}
	return err
}

// syncOne makes one file or directory durable.
func syncOne(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %q: %w", name, err)
	}
	return nil
}
