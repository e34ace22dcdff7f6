package mariadb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mbwrap/mbwrap/mariadb/internal/process"
	"github.com/mbwrap/mbwrap/mariadb/version"
)

// PrepareOptions says which extracted backup to make consistent, and how.
type PrepareOptions struct {
	Tool           string         // as for FindTool
	Dir            string         // the extracted full backup; it is changed
	IncrementalDir string         // an extracted incremental to apply to it, used up in doing so; "" for none
	UseMemory      int64          // bytes; 0 is half of what is free, and at least the tool's own default of 96 MiB
	Made           version.Number // of the server that the backup was made of; the zero Number leaves that check out
	DefaultsFile   string
	Args           []string      // more options, such as those of a key plugin
	Nice           int           // added to the tool's priority number
	Grace          time.Duration // between SIGINT and SIGKILL; 0 is ten seconds
	Log            io.Writer     // as in BackupOptions
	OnEvent        func(Event)
}

// Prepare runs the tool's --prepare on a directory. The report is filled in on failure, too. A failed prepare leaves
// the directory in a state that no server may start on, and that is not fit for another try.
func Prepare(ctx context.Context, o PrepareOptions) (Report, error) {
	tool, err := FindTool(o.Tool)
	if err != nil {
		return Report{}, err
	}
	if err := o.checkVersion(ctx, tool); err != nil {
		return Report{}, err
	}
	if o.UseMemory == 0 {
		o.UseMemory = useMemory(0)
	}
	if _, err := process.RaiseFileLimit(); err != nil {
		return Report{}, err
	}
	run := runOptions{nice: o.Nice, grace: o.Grace, log: o.Log, onEvent: o.OnEvent}
	p, err := startProcess(ctx, exec.Command(tool, o.arguments()...), run)
	if err != nil {
		return Report{}, fmt.Errorf("start %s: %w", filepath.Base(tool), err)
	}
	_, err = io.Copy(io.Discard, p) // it writes nothing there that anyone wants
	return p.Report(), err
}

func (o *PrepareOptions) arguments() []string {
	var args []string
	if o.DefaultsFile != "" {
		args = append(args, "--defaults-file="+o.DefaultsFile)
	}
	// Temporary files go where the tool can write, and where there is room, which is said of TMPDIR of no environment.
	args = append(args, "--prepare", "--target-dir="+o.Dir, "--tmpdir="+o.Dir,
		"--use-memory="+strconv.FormatInt(o.UseMemory, 10))
	if o.IncrementalDir != "" {
		args = append(args, "--incremental-dir="+o.IncrementalDir)
	}
	return append(args, o.Args...)
}

// ErrToolVersion is wrapped by the [UsageError] of [Prepare] when the tool does not fit the backup.
var ErrToolVersion = errors.New("the tool's version does not fit")

// checkVersion refuses what the tool would misread or refuse with a message that says little.
func (o *PrepareOptions) checkVersion(ctx context.Context, tool string) error {
	if o.Made == (version.Number{}) {
		return nil
	}
	v, _, err := version.Of(ctx, tool)
	if err != nil {
		return err
	}
	switch {
	case v.CompareSeries(o.Made) < 0:
		return &UsageError{
			Option: tool, Reason: fmt.Sprintf("version %s is older than the backup, which is of a %s server", v, o.Made),
			Hint: fmt.Sprintf("prepare it with mariadb-backup %d.%d (--tool PATH)", o.Made.Major, o.Made.Minor), Err: ErrToolVersion,
		}
	case !v.ReadsRedoOf(o.Made):
		return &UsageError{
			Option: tool, Reason: fmt.Sprintf("version %s can't read the redo log of a backup of a %s server", v, o.Made),
			Hint: fmt.Sprintf("prepare it with mariadb-backup %d.%d (--tool PATH)", o.Made.Major, o.Made.Minor), Err: ErrToolVersion,
		}
	}
	return nil
}
