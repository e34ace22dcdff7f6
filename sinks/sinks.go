// Package sinks stores named objects in places that can fail: a local directory, and whatever else can promise the same.
//
// An object is written once, from the first byte to the last, and appears under its name whole or not at all: nothing is
// visible before [Writer.Commit]. What a sink must promise is written at the interfaces below and proven by the
// conformance test in sinks/sinktest, which every sink runs. Retry, rate limits and faults are wrappers of a [Sink], not
// code inside one.
//
// A name is a slash-separated path below the root of the sink, see [CheckName]. Folders are not objects: they come with
// the first object in them and go with the last.
//
// What is absent is [fs.ErrNotExist], what is taken is [fs.ErrExist], a bad name is [fs.ErrInvalid], all to be matched
// with errors.Is. An error of the system (a full disk, a lost mount) can be matched as well, for example with
// syscall.ENOSPC.
//
// The package knows nothing of backups, prints nothing and reads no environment.
package sinks

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
)

// Info describes one object.
type Info struct {
	Name    string    // as given to Create
	Size    int64     // bytes
	ModTime time.Time // last write, by the clock of the place that stores it
}

// Object is a stored object opened for reading. ReadAt may be called by several goroutines at once. The object stays
// readable until Close, even when it is removed in the meantime, where the place allows that.
type Object interface {
	io.ReaderAt
	io.Closer
	// Size is the object's length in bytes when it was opened.
	Size() int64
}

// Writer is an object in the making. It belongs to one goroutine. Every Writer ends with Commit or Abort; `defer
// w.Abort()` right after Create is the way to be sure.
type Writer interface {
	// Write appends p and keeps no reference to it. The first error sticks: later calls of Write and Commit
	// return it again.
	io.Writer

	// Commit makes the object durable and visible under its name, or returns an error and leaves nothing visible.
	// When it returns nil, every byte that Write took is stored such that a power cut can't undo it, and the length
	// was compared with what was written. If the name has been taken in the meantime the error is fs.ErrExist and
	// the other object is untouched. After an error nothing is left to do: Commit has cleaned up as Abort does. A
	// second call returns the result of the first.
	Commit() error

	// Abort gives the object up and removes what was written, also after the context of Create is done. It is
	// harmless twice, after Commit, and after errors. An error means something was left that could not be removed;
	// it is not visible as an object, and Leftovers will find it later where the sink is a Scavenger.
	Abort() error
}

// Sink is a place for objects. Its methods may be called by several goroutines and several processes at once.
type Sink interface {
	// Create begins an object. ctx covers the life of the Writer: when it is done, Write and Commit fail with its
	// error. Objects are written once: if name is taken, Create or, at the latest, Commit fails with fs.ErrExist.
	// Of several writers of one name exactly one commits. A name can't be an object and a folder at once; a sink
	// where that is impossible refuses the second comer.
	Create(ctx context.Context, name string) (Writer, error)

	// Open opens an object for reading; fs.ErrNotExist if there is none, also when name is a folder.
	Open(ctx context.Context, name string) (Object, error)

	// List returns every object whose name begins with prefix, in all folders below, sorted by the bytes of the
	// name. The prefix is a plain string: "a/b" finds "a/b", "a/bc" and "a/b/c"; "" finds all. None is an empty
	// list, not an error. Unfinished objects and the sink's own files (locks) never appear. An object that is
	// committed or removed during the call may be in the list or not.
	List(ctx context.Context, prefix string) ([]Info, error)

	// Remove deletes an object, and the folders that become empty. fs.ErrNotExist if there is none.
	Remove(ctx context.Context, name string) error
}

// Replacer is a Sink that can overwrite a small object as a whole.
type Replacer interface {
	// Replace stores data under name, whether or not the name is taken. Readers see the old or the new bytes, never
	// a mixture and never none; after a nil error the new bytes are durable. data is not kept.
	Replace(ctx context.Context, name string, data []byte) error
}

// Locker is a Sink with exclusive locks between processes.
type Locker interface {
	// Lock takes the lock called name or fails at once with a *LockedError while another holds it, in this process
	// or any other. owner is told to those who come later; it informs and decides nothing. A lock dies with its
	// process, however that dies: what a dead run leaves behind never blocks. Locks have their own names: they
	// are no objects and never listed. ctx bounds the call only, not the life of the lock.
	Lock(ctx context.Context, name string, owner []byte) (Lock, error)
}

// Lock is a lock that is held.
type Lock interface {
	// Unlock gives the lock back. Harmless twice.
	Unlock() error
}

// LockedError says that a lock is held by another.
type LockedError struct {
	Name  string // of the lock
	Owner []byte // what the holder gave to Lock; empty if it could not be read
}

func (e *LockedError) Error() string {
	if len(e.Owner) == 0 {
		return fmt.Sprintf("lock %q: held by another run", e.Name)
	}
	return fmt.Sprintf("lock %q: held by another run: %s", e.Name, e.Owner)
}

// Scavenger is a Sink that can find what runs left behind which died between Create and Commit.
type Scavenger interface {
	// Leftovers lists unfinished objects that nobody is writing any more, by names of the sink's own making; prefix
	// is as in List. ModTime tells when the last byte arrived.
	Leftovers(ctx context.Context, prefix string) ([]Info, error)

	// RemoveLeftover removes one that Leftovers named. It refuses, with fs.ErrInvalid, every other name; and, with
	// a *LockedError, one that is being written.
	RemoveLeftover(ctx context.Context, name string) error
}

// Limits of a name, in bytes: what every place can store (a local element; an S3 key).
const (
	maxName    = 1024
	maxElement = 255
)

// reserved begins the elements that sinks keep for themselves: temporary files and locks.
const reserved = ".mbwrap-"

// CheckName returns an error matching fs.ErrInvalid unless name can name an object in any sink: fs.ValidPath but not
// ".", no NUL, at most 1024 bytes and 255 in each element, and no element that begins with ".mbwrap-", which sinks use
// for their own files.
func CheckName(name string) error {
	if name == "." || !fs.ValidPath(name) || strings.IndexByte(name, 0) >= 0 || len(name) > maxName {
		return fmt.Errorf("object name %q: %w", name, fs.ErrInvalid)
	}
	for element := range strings.SplitSeq(name, "/") {
		if len(element) > maxElement || strings.HasPrefix(element, reserved) {
			return fmt.Errorf("object name %q: %w", name, fs.ErrInvalid)
		}
	}
	return nil
}

// checkPrefix is CheckName for the prefix of a list: any beginning of a valid name.
func checkPrefix(prefix string) error {
	if prefix == "" || CheckName(strings.TrimSuffix(prefix, "/")) == nil {
		return nil
	}
	// The last element may be the beginning of one: "a/." can go on as "a/.x", ".mbwrap-" can not.
	if CheckName(prefix+"x") == nil {
		return nil
	}
	return fmt.Errorf("object name prefix %q: %w", prefix, fs.ErrInvalid)
}
