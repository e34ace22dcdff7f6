package restore

import (
	"errors"
	"fmt"
)

// Errors that callers match with errors.Is.
var (
	// ErrMismatch says that a stream is not the one that its index describes.
	ErrMismatch = errors.New("the stream and its index disagree")
	// ErrNothing says that the selection holds no file.
	ErrNothing = errors.New("nothing to restore")
	// ErrIncremental says that a backup holds changes only, which can't be prepared alone.
	ErrIncremental = errors.New("an incremental backup is not a data directory")
	// ErrReserved says that a file of the stream has a name that means something else in a target: that of the directory
	// of an unfinished restore, or lost+found.
	ErrReserved = errors.New("its name is reserved")
)

// NotEmptyError says that the target directory holds something else. Nothing was touched.
type NotEmptyError struct {
	Target string
	Entry  string // one of the names found in it; "" when the target is no directory
}

func (e *NotEmptyError) Error() string {
	if e.Entry == "" {
		return fmt.Sprintf("target %q is not a directory", e.Target)
	}
	return fmt.Sprintf("target directory %q is not empty: it holds %q", e.Target, e.Entry)
}

// SpaceError says that the file system of the target is too small: before the restore, when Err is nil, or because it
// became full.
type SpaceError struct {
	Target string
	Need   int64 // bytes, or files when Inodes is set; 0 when unknown
	Free   int64 // likewise, at the time of the error
	Inodes bool
	Err    error // what the file system said when it became full
}

func (e *SpaceError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("file system of %q is full (%d bytes free): %v", e.Target, e.Free, e.Err)
	}
	if e.Inodes {
		return fmt.Sprintf("file system of %q has room for %d more files, the restore makes %d", e.Target, e.Free, e.Need)
	}
	return fmt.Sprintf("file system of %q has %d bytes free, the restore needs up to %d", e.Target, e.Free, e.Need)
}

// Unwrap returns what the file system said, if it became full.
func (e *SpaceError) Unwrap() error { return e.Err }

// UnfinishedError says that the target holds an unfinished restore of something else. Nothing was touched.
type UnfinishedError struct {
	Dir  string // the directory of the unfinished restore
	What string // what was being restored, in words
	Err  error  // why that can't be told, or nil
}

func (e *UnfinishedError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%q holds an unfinished restore whose state can't be read: %v", e.Dir, e.Err)
	}
	return fmt.Sprintf("%q holds an unfinished restore of %s", e.Dir, e.What)
}

// Unwrap returns why the state can't be read.
func (e *UnfinishedError) Unwrap() error { return e.Err }

// LockedError says that another restore into the same target is running.
type LockedError struct {
	Target string
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("another restore into %q is running", e.Target)
}

// VersionError says that mariadb-backup is older than the server that the backup was taken from. It can't be relied
// on to prepare such a backup.
type VersionError struct {
	Tool          string // path of the program
	ToolVersion   string
	ServerVersion string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has version %s, older than the server of the backup, %s", e.Tool, e.ToolVersion, e.ServerVersion)
}

// FormatError says that an input is not a stream nor a compressed one.
type FormatError struct {
	Name   string // of the input
	What   string // what it seems to be, in words; "" when unknown
	Sealed bool   // it is encrypted
}

func (e *FormatError) Error() string {
	if e.What == "" {
		return fmt.Sprintf("%q is not an xbstream, plain or compressed with zstd, gzip or lz4", e.Name)
	}
	return fmt.Sprintf("%q is not an xbstream: it looks like %s", e.Name, e.What)
}

// IncompleteError wraps every error that leaves an unfinished restore behind in the target.
type IncompleteError struct {
	Dir   string // the directory of the unfinished restore
	Phase Phase  // in which it stopped
	Again bool   // the same restore, run again, keeps what is complete
	Err   error
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("restore stopped in phase %q and is unfinished in %q: %v", e.Phase, e.Dir, e.Err)
}

// Unwrap returns what stopped the restore.
func (e *IncompleteError) Unwrap() error { return e.Err }
