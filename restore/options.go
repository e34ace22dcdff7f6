package restore

import (
	"io"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// Phase names a part of the work.
type Phase string

// Phases in their order.
const (
	PhaseExtract  Phase = "extracting"
	PhasePrepare  Phase = "preparing"
	PhaseHandOver Phase = "moving" // make durable, change the owner, move into place
)

// Stream is a stream that lies in no repository: a file, or standard input. It may be plain or compressed with any
// codec; which is found by its content.
type Stream struct {
	Reader io.Reader
	Name   string // for messages
	// Identity tells the same stream in a later run, such as a file's absolute path, size and time. When it is empty
	// nothing can be taken over from an unfinished run.
	Identity string
	Expect   xbstream.Expect // the zero value wants a whole backup
	// Interrupt, if not nil, is called once on failure or cancel and must make a blocked Read return.
	Interrupt func()
}

// Options says what to restore and how. Either Backup or Stream is set.
type Options struct {
	Target string // directory; absent, or empty but for lost+found
	Backup *catalog.Backup
	Stream *Stream

	// Select chooses files of a backup by the place where they end up; nil takes all.
	Select func(catalog.File) bool

	// Salvage restores everything of a damaged backup or stream that is intact, and lists the rest in Result.Lost. Of what
	// is not damaged it makes the same as without. See the package's documentation.
	Salvage bool

	NoPrepare bool
	Tool      string // mariadb-backup; "" looks for it
	UseMemory int64  // bytes for the prepare; 0 chooses from what is free
	// Owner is USER, USER:GROUP or :GROUP, by name or number. When it is empty the files get the owner that the target
	// directory had; if there was none they get mysql, when that user exists and we are root.
	Owner     string
	Jobs      int    // decoding workers; below 1 stands for one a core
	SkipSpace bool   // don't compare sizes with the free space first
	Version   string // of mbwrap, for the state that an unfinished restore leaves

	Meter   *pipeline.Meter     // receives the counts; nil is fine
	OnTotal func(raw int64)     // told once how many bytes Meter.Raw will count, when that is known; nil is fine
	OnPhase func(Phase)         // told of every phase as it begins; nil is fine
	OnTool  func(mariadb.Event) // told what mariadb-backup says; nil is fine
	ToolLog io.Writer           // receives all that mariadb-backup says; nil is fine

	syncEvery int64 // bytes written between two syncs; 0 is the usual number
}

// ExtractOptions says where to extract to.
type ExtractOptions struct {
	Target  string // directory; absent, or empty but for lost+found
	Owner   string // as in Options; "" leaves the files to whoever we are
	Version string // of mbwrap
	Meter   *pipeline.Meter
	OnPhase func(Phase)
}

// Result tells what was done.
type Result struct {
	Target   string // absolute
	Files    int64  // that the target now holds of the stream, before they were prepared
	Bytes    int64  // their sizes
	Kept     int64  // files taken over from an unfinished run
	Resumed  bool   // an unfinished run was continued
	Prepared bool
	Owner    string // "user:group" that was given, "" if unchanged

	Extract, Prepare, HandOver time.Duration

	// Lost lists files that could not be salvaged, by path; LostFiles counts all of them, which may be more. A file of the
	// target, LostList, lists all.
	Lost      []LostFile
	LostFiles int64
	LostList  string // absolute path, "" if nothing is lost
	// Aside is the directory inside of the target that holds everything when so much is lost that it is no data directory:
	// its "files" are not prepared, and its README.txt tells what can be done. "" otherwise.
	Aside string

	Position *mariadb.Position // what the backup says of itself; nil when the stream held no such files
	Warnings []string          // each a sentence without a final period
	Next     []string          // what the operator has to do now, in order, one step each
}
