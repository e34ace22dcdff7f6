package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
	"github.com/mbwrap/mbwrap/restore"
)

// TrialOptions says how a restore is tried.
type TrialOptions struct {
	Dir  string // below it the restored files are put for the time of the trial; it is made if it is absent
	Keep bool   // leave the restored files there

	Check      scratch.Mode        // how the server checks tables; "" is Medium
	Statements []scratch.Statement // must return what they say; see scratch.ParseSQL
	Baseline   *Baseline           // to compare the rows of the tables with; nil counts none
	Drift      float64             // fraction of its rows by which a table may differ from the baseline

	Tool      string        // mariadb-backup; "" looks for it
	UseMemory int64         // bytes for the prepare, and then for the server's buffer pool; 0 chooses
	Timeout   time.Duration // how long the server may take until it answers; 0 is ten minutes
	Version   string        // of mbwrap
	ToolLog   io.Writer     // receives all that mariadb-backup says; nil is fine
	OnTool    func(mariadb.Event)
	OnTables  func(done, all int) // told how many tables have been checked; nil is fine
}

// startTimeout is how long a server gets that may have much to recover.
const startTimeout = 10 * time.Minute

func (o *TrialOptions) check() (err error) {
	if o.Dir == "" {
		return errors.New("level restore needs a directory for the restored files")
	}
	if !(o.Drift >= 0) {
		return fmt.Errorf("rows can't drift by %v", o.Drift)
	}
	if o.Timeout == 0 {
		o.Timeout = startTimeout
	}
	if o.Check == "" {
		o.Check = scratch.Medium
	}
	if !slices.Contains([]scratch.Mode{scratch.Quick, scratch.Medium, scratch.Extended}, o.Check) {
		return fmt.Errorf("unknown mode %q of a check of tables", o.Check)
	}
	if o.OnTables == nil {
		o.OnTables = func(int, int) {}
	}
	o.Dir, err = filepath.Abs(o.Dir)
	return err
}

// Trial is what the trial of a restore showed. What it found wrong is among the Problems. Times are seconds, sizes bytes.
type Trial struct {
	Skipped string `json:"skipped"` // why nothing was tried, "" if it was
	Dir     string `json:"dir"`     // where the files were restored to
	Kept    bool   `json:"kept"`    // they are still there

	ServerVersion string `json:"server_version"` // of the server that was started

	Extract  float64 `json:"extract_seconds"`
	Prepare  float64 `json:"prepare_seconds"`
	HandOver float64 `json:"handover_seconds"`
	Start    float64 `json:"start_seconds"`
	Check    float64 `json:"check_seconds"`

	RTO    float64 `json:"rto_seconds"` // how long a restore takes until a server answers; 0 when none did
	RTOHow string  `json:"rto_how"`     // where that number comes from

	SpaceNeeded int64 `json:"space_needed"` // promised before
	SpaceUsed   int64 `json:"space_used"`   // at most, as far as it was seen

	CheckMode       string   `json:"check_mode"`
	Tables          int      `json:"tables"`
	Checked         int      `json:"checked"`
	NotChecked      []string `json:"not_checked"` // the first ones: table and reason
	NotCheckedCount int      `json:"not_checked_count"`
	Statements      int      `json:"statements"`
	Compared        int      `json:"compared"` // tables of the baseline
	Notes           []string `json:"notes"`    // worth knowing, and no problem; the first ones
}

// maxNotes bounds the lists of a Trial.
const maxNotes = 100

func (t *Trial) note(format string, args ...any) {
	if len(t.Notes) < maxNotes {
		t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
	}
}

// Room that a trial needs besides the files and what goes into the prepare, in bytes.
const (
	prepareRoom = 16 << 20 // temporary tables and undo of the prepare
	serverRoom  = 64 << 20 // the server's own redo log, temporary tablespace and logs
)

// serverLog keeps the redo log that the server makes small.
const serverLog = "--loose-innodb-log-file-size=16M"

// ready finds out whether a trial is possible, before hours are spent on reading.
func (c *checker) ready(ctx context.Context) error {
	if c.backup.Manifest.Type != catalog.Full {
		return restore.ErrIncremental
	}
	if _, err := mariadb.FindTool(c.options.Trial.Tool); err != nil {
		return err
	}
	index, err := c.backup.Index(ctx)
	switch {
	case err == nil:
		c.weigh(index.Tree())
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case outside(err):
		return err
	default: // the reading will tell
		c.treeBytes = c.backup.Manifest.RawBytes
	}
	return checkRoom(nearest(c.options.Trial.Dir), c.spaceNeeded())
}

// spaceNeeded is what a trial takes at most, in bytes.
func (c *checker) spaceNeeded() int64 {
	return c.treeBytes + c.redoBytes + prepareRoom + serverRoom
}

// skip returns why the backup is not restored, "" if it is.
func (c *checker) skip() string {
	c.report.settle()
	switch {
	case c.altered:
		return "the backup is not as the holder of its key left it, and might hold anything"
	case c.report.Restorable == RestorableAll || c.onlyPages():
		return ""
	}
	return "the backup is damaged, so that it can't be restored in full"
}

// trial restores the backup, has a server check it, and leaves nothing behind.
func (c *checker) trial(ctx context.Context) (err error) {
	t := &Trial{NotChecked: []string{}, Notes: []string{}, CheckMode: string(c.options.Trial.Check)}
	c.report.Trial = t
	t.SpaceNeeded = c.spaceNeeded()
	if t.Skipped = c.skip(); t.Skipped != "" {
		return nil
	}
	dir, err := newTrialDir(c.options.Trial.Dir, t.SpaceNeeded)
	if err != nil {
		return err
	}
	t.Dir = dir.path
	defer func() {
		t.SpaceUsed = dir.stopWatch()
		if c.options.Trial.Keep && ctx.Err() == nil {
			t.Kept = true
			err = errors.Join(err, dir.keep())
			return
		}
		err = errors.Join(err, dir.remove())
	}()
	return c.tryRestore(ctx, t, dir)
}

// onlyPages tells whether nothing but bad pages was found: such a backup restores, and the server may say more.
func (c *checker) onlyPages() bool {
	for _, f := range c.report.Lost {
		if f.Why != whyPages {
			return false
		}
	}
	return c.report.LostFiles > 0 && c.report.LostFiles == int64(len(c.report.Lost)) && !c.report.LostMore
}

// tryRestore restores the backup and starts a server on it.
func (c *checker) tryRestore(ctx context.Context, t *Trial, dir *trialDir) error {
	o := &c.options.Trial
	owner, note := dir.owner()
	if note != "" {
		t.note("%s", note)
	}
	result, err := restore.Run(ctx, restore.Options{
		Target: dir.data(), Backup: c.backup, Owner: owner, Jobs: c.options.Jobs, Meter: c.options.Meter,
		Tool: o.Tool, UseMemory: o.UseMemory, ToolLog: o.ToolLog, OnTool: o.OnTool, Version: o.Version,
		OnPhase: func(p restore.Phase) { dir.look(); c.options.OnPhase(string(p)) },
	})
	t.Extract, t.Prepare, t.HandOver = result.Extract.Seconds(), result.Prepare.Seconds(), result.HandOver.Seconds()
	dir.look()
	if err != nil {
		return c.restoreFailed(ctx, dir, err)
	}
	for _, w := range result.Warnings {
		t.note("%s", w)
	}
	args, err := serverArgs(result.Position)
	if err != nil {
		c.problem(whole("", err.Error()))
		return nil
	}
	return c.tryServer(ctx, t, dir, args)
}

// restoreFailed tells a backup that can't be restored from a machine on which nothing can.
func (c *checker) restoreFailed(ctx context.Context, dir *trialDir, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	failure, tool := errors.AsType[*mariadb.ToolError](err)
	switch {
	case outside(err), isA[*restore.SpaceError](err):
		return err
	case tool && failure.Signal == "" && !failure.Stopped:
		if full := dir.full(); full != nil {
			return full
		}
		c.problem(whole("", "it can't be prepared: "+err.Error()))
	case isA[*mariadb.SuspectError](err):
		c.problem(whole("", "its prepare is in doubt: "+err.Error()))
	case isDamage(err):
		c.problem(whole("", "it can't be restored: "+err.Error()))
	default:
		return err
	}
	return nil
}

// plainValue is what the values of backup-my.cnf may be that go to the server: no path leads out of the data directory.
var plainValue = regexp.MustCompile(`^[A-Za-z0-9_.:;]+$`)

// serverArgs returns the settings that a server must share with the backup.
func serverArgs(p *mariadb.Position) ([]string, error) {
	args := []string{serverLog}
	if p == nil {
		return args, nil
	}
	for _, key := range []string{"innodb_page_size", "innodb_data_file_path", "innodb_undo_tablespaces"} {
		value := p.Config[key]
		if value == "" {
			continue
		}
		if !plainValue.MatchString(value) {
			return nil, fmt.Errorf("backup-my.cnf says %s=%q, with which no server is started here", key, value)
		}
		args = append(args, "--"+key+"="+value)
	}
	return args, nil
}
