package mariadb

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/mbwrap/mbwrap/mariadb/internal/optionfile"
	"github.com/mbwrap/mbwrap/mariadb/internal/process"
)

// BackupOptions says what to back up and how.
type BackupOptions struct {
	ConnectOptions        // handed to the tool; the password by way of a nameless option file
	Tool           string // as for FindTool
	Parallel       int    // threads that read files; 0: as the option files say, else min(4, cores)
	IncrementalLSN uint64 // the parent's ToLSN; 0 is a full backup
	Args           []string
	Nice           int           // added to the tool's priority number; 0 leaves it
	Grace          time.Duration // between SIGINT and SIGKILL; 0 is ten seconds

	// Log gets everything the tool says on stderr, with the password blotted out. OnEvent gets the same, understood.
	// Both are called on one goroutine, and the tool waits when they take long. They must not call Stop; ending the
	// context is allowed. They may be nil.
	Log     io.Writer
	OnEvent func(Event)
	// AcceptErrors ends a run with io.EOF although the tool reported errors, if it ended well otherwise; they are in
	// the report.
	AcceptErrors bool
}

// toolGroups are the groups of option files that are meant for the tool alone.
var toolGroups = []string{"xtrabackup", "mariabackup", "mariadb-backup"}

// copyInterval makes the tool look for new redo log ten times a second instead of once. It waits for that look while it
// holds the server's locks: measured on 10.11.19, changes of tables were held up for 0.3 to 1.8 s with the tool's
// default, 0.1 to 0.25 s with this.
const copyInterval = "--log-copy-interval=100"

// StartBackup starts the tool and returns it as a source of the stream. Options that would break the stream or show a
// secret are refused with a [*UsageError] before anything runs. When ctx ends, the tool is stopped. The caller must read
// to the end or call Stop.
func StartBackup(ctx context.Context, o BackupOptions) (*Process, error) {
	found, err := checkArgs(o.Args)
	if err != nil {
		return nil, err
	}
	inFiles, err := checkFileArgs(optionfile.Options(ctx, o.DefaultsFile, toolGroups...))
	if err != nil {
		return nil, err
	}
	tool, err := FindTool(o.Tool)
	if err != nil {
		return nil, err
	}
	if _, err := process.RaiseFileLimit(); err != nil {
		return nil, err
	}
	files, err := newOptionFile(ctx, o.ConnectOptions)
	if err != nil {
		return nil, err
	}
	if files.file != nil {
		defer files.file.Close() // the tool has its own copy by then
	}
	if o.Parallel == 0 && !found.parallel && !inFiles.parallel {
		o.Parallel = min(4, runtime.GOMAXPROCS(0))
	}
	args := o.arguments(files.arg)
	if !found.copyInterval && !inFiles.copyInterval {
		args = slices.Insert(args, len(args)-len(o.Args), copyInterval)
	}
	cmd := exec.Command(tool, args...)
	if files.file != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, files.file)
	}
	run := runOptions{
		nice: o.Nice, grace: o.Grace, log: o.Log, onEvent: o.OnEvent, secrets: []string{o.Password},
		warnings: append(found.warnings, inFiles.warnings...), acceptErrors: o.AcceptErrors,
	}
	p, err := startProcess(ctx, cmd, run)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(tool), err)
	}
	return p, nil
}

// Check refuses options, in Args or in the option files, that would break the stream or show a secret, with a
// [*UsageError], and warns of those that do no good. [StartBackup] refuses them, too.
func (o *BackupOptions) Check(ctx context.Context) (warnings []string, err error) {
	found, err := checkArgs(o.Args)
	if err != nil {
		return nil, err
	}
	_, err = checkFileArgs(optionfile.Options(ctx, o.DefaultsFile, toolGroups...))
	return found.warnings, err
}

// arguments is the tool's argument list, the one about option files first.
func (o *BackupOptions) arguments(optionFile string) []string {
	var args []string
	if optionFile != "" {
		args = append(args, optionFile)
	}
	args = append(args, "--backup", "--stream=mbstream")
	if o.Parallel > 0 {
		args = append(args, "--parallel="+strconv.Itoa(o.Parallel))
	}
	for _, f := range []struct{ name, value string }{{"user", o.User}, {"host", o.Host}, {"socket", o.Socket}} {
		if f.value != "" {
			args = append(args, "--"+f.name+"="+f.value)
		}
	}
	if o.Port != 0 {
		args = append(args, "--port="+strconv.Itoa(o.Port))
	}
	if o.IncrementalLSN != 0 {
		args = append(args, "--incremental-lsn="+strconv.FormatUint(o.IncrementalLSN, 10))
	}
	return append(args, o.Args...)
}
