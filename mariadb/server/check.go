package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/internal/process"
	"github.com/mbwrap/mbwrap/mariadb/version"
)

// Levels of findings.
const (
	LevelOK   = "ok"
	LevelWarn = "warn" // a backup is possible, but someone should read this
	LevelFail = "fail" // a backup can't succeed, or would be of something else
)

// Finding is one answer of [Check].
type Finding struct {
	Level  string // LevelOK, LevelWarn or LevelFail
	What   string // what was looked at, a few words that don't change
	Detail string // what was found
	Hint   string // what to do; "" if there is nothing to do
}

// CheckOptions says what a backup would be taken with.
type CheckOptions struct {
	mariadb.ConnectOptions
	Tool      string   // as for FindTool
	Args      []string // the options for the tool
	SpaceDir  string   // where the backup would be written; "" leaves the question out
	SpaceNeed int64    // bytes it would take there; 0 takes a third of the data
}

// checker collects findings.
type checker struct {
	o        CheckOptions
	findings []Finding
	tool     version.Number
	server   *Conn
	facts    Facts
}

// Check looks whether a backup can succeed from here: the tool, the server and whether it is the one whose data lies on
// this host, rights, limits, space. It changes nothing, and returns findings in the order in which one would solve
// them. The error is only for a look that could not be finished, because ctx has ended.
func Check(ctx context.Context, o CheckOptions) ([]Finding, error) {
	c := &checker{o: o}
	c.checkTool(ctx)
	if c.connect(ctx) {
		defer c.server.Close() // only read from
		c.checkServer(ctx)
	}
	c.checkSpace()
	c.checkOthers()
	if err := context.Cause(ctx); err != nil {
		return c.findings, err
	}
	return c.findings, nil
}

func (c *checker) ok(what, format string, args ...any) {
	c.findings = append(c.findings, Finding{Level: LevelOK, What: what, Detail: fmt.Sprintf(format, args...)})
}

// advise is for what is well but should be known.
func (c *checker) advise(what, detail, hint string) {
	c.findings = append(c.findings, Finding{Level: LevelOK, What: what, Detail: detail, Hint: hint})
}

func (c *checker) warn(what, detail, hint string) {
	c.findings = append(c.findings, Finding{Level: LevelWarn, What: what, Detail: detail, Hint: hint})
}

func (c *checker) fail(what, detail, hint string) {
	c.findings = append(c.findings, Finding{Level: LevelFail, What: what, Detail: detail, Hint: hint})
}

// checkTool looks for the tool and at the options for it.
func (c *checker) checkTool(ctx context.Context) {
	path, err := mariadb.FindTool(c.o.Tool)
	var usage *mariadb.UsageError
	if errors.As(err, &usage) {
		c.fail("tool", usage.Error(), usage.Hint)
		return
	}
	number, text, err := version.Of(ctx, path)
	if err != nil {
		c.fail("tool", err.Error(), "is "+path+" mariadb-backup? another one can be named with --tool PATH")
		return
	}
	c.tool = number
	c.ok("tool", "%s: %s", path, text)
	warnings, err := (&mariadb.BackupOptions{ConnectOptions: c.o.ConnectOptions, Args: c.o.Args}).Check(ctx)
	switch {
	case errors.As(err, &usage):
		c.fail("tool options", usage.Error(), usage.Hint)
	case len(warnings) > 0:
		c.warn("tool options", strings.Join(warnings, "; "), "leave them out")
	}
}

// connect reaches the server and asks it everything once.
func (c *checker) connect(ctx context.Context) bool {
	server, err := Connect(ctx, c.o.ConnectOptions)
	var usage *mariadb.UsageError
	switch {
	case errors.As(err, &usage):
		c.fail("server", usage.Error(), usage.Hint)
	case errors.Is(err, ErrAccessDenied):
		c.fail("server", err.Error(), "see user and password (option file, --user), and that the user may connect from this host")
	case errors.Is(err, ErrUnreachable):
		c.fail("server", err.Error(), "is it running? see --socket, or --host and --port")
	case err != nil:
		c.fail("server", err.Error(), "")
	}
	if err != nil {
		return false
	}
	c.server = server
	if c.facts, err = server.Facts(ctx); err != nil {
		c.fail("server", err.Error(), "")
		return false
	}
	return true
}

// checkServer looks at all that needs a connection.
func (c *checker) checkServer(ctx context.Context) {
	c.checkVersions()
	c.checkHost(ctx)
	c.checkPrivileges(ctx)
	c.checkOpenFiles()
	c.checkRedo()
	c.checkTmp()
	c.checkZone()
	c.checkReplicas()
	c.checkGalera()
	if c.facts.Encrypted {
		c.advise("encryption at rest", "the server encrypts its data; the backup holds it encrypted, without the keys", "keep the keys somewhere else; a restore needs them")
	}
	if n := len(c.facts.Data.Outside); n > 0 {
		c.warn("tables outside", fmt.Sprintf("%d tables lie outside the data directory (DATA DIRECTORY), the first in %s", n, c.facts.Data.Outside[0]),
			"a restore puts them inside; see that no one expects them elsewhere")
	}
}

// checkVersions compares tool and server.
func (c *checker) checkVersions() {
	v := c.facts.Version
	if v == (version.Number{}) || !strings.Contains(c.facts.VersionText+c.facts.VersionComment, "MariaDB") && !strings.Contains(strings.ToLower(c.facts.VersionComment), "mariadb") {
		c.fail("server", fmt.Sprintf("version %q (%s) is not MariaDB", c.facts.VersionText, c.facts.VersionComment), "mariadb-backup backs up MariaDB servers only")
		return
	}
	c.ok("server", "MariaDB %s on %s, data in %s", c.facts.VersionText, c.facts.Hostname, c.facts.DataDir)
	if c.tool == (version.Number{}) {
		return
	}
	fit := fmt.Sprintf("use the mariadb-backup of version %d.%d (--tool PATH)", v.Major, v.Minor)
	detail := fmt.Sprintf("tool %s, server %s", c.tool, v)
	switch {
	case c.tool.CompareSeries(v) < 0:
		c.fail("versions", detail+": the tool is older than the server and may not know its files", fit)
	case !c.tool.ReadsRedoOf(v):
		c.fail("versions", detail+": the tool can't read redo logs from before MariaDB 10.8", fit)
	case c.tool.CompareSeries(v) > 0:
		c.warn("versions", detail+": the tool is of a newer series", fit)
	default:
		c.ok("versions", "%s: the same series", detail)
	}
}

// checkOpenFiles compares our limit, which the tool inherits, with the number of files it keeps open.
func (c *checker) checkOpenFiles() {
	limit, err := process.RaiseFileLimit()
	if err != nil || c.facts.Tablespaces < 0 {
		return
	}
	const others = 100 // logs, libraries, connections, one file per thread
	need := uint64(c.facts.Tablespaces) + others
	detail := fmt.Sprintf("at most %d open files, %d tablespaces", limit, c.facts.Tablespaces)
	if limit < need {
		c.fail("open files", detail, fmt.Sprintf("raise the limit above %d (ulimit -Hn, LimitNOFILE= in the service)", need))
		return
	}
	c.ok("open files", "%s", detail)
}

// checkRedo warns of a redo log that a busy server would write round while a large backup runs.
func (c *checker) checkRedo() {
	const small, large = 512 << 20, 50 << 30
	detail := fmt.Sprintf("%d MiB", c.facts.RedoSize>>20)
	if c.facts.RedoSize < small && c.facts.Data.Bytes > large {
		c.warn("redo log", detail+" for "+strconv.FormatInt(c.facts.Data.Bytes>>30, 10)+" GiB of data: a backup fails when the server overwrites what was not copied yet",
			"enlarge innodb_log_file_size (SET GLOBAL from 10.9 on)")
		return
	}
	c.ok("redo log", "%s", detail)
}

// checkTmp looks at the directory in which the tool keeps temporary files.
func (c *checker) checkTmp() {
	const least = 64 << 20
	dir := c.facts.TmpDir
	if dir == "" {
		dir = os.TempDir()
	}
	free, err := freeSpace(dir)
	switch {
	case err != nil:
		c.warn("temporary directory", err.Error(), "see tmpdir in the server's option file")
	case free < least:
		c.warn("temporary directory", fmt.Sprintf("%s has %d MiB free", dir, free>>20), "make room there")
	default:
		c.ok("temporary directory", "%s has %d MiB free", dir, free>>20)
	}
}

// checkZone tells in which zone the backup's own times will be: the tool writes local time without saying so.
func (c *checker) checkZone() {
	ours, _ := time.Now().Zone()
	if c.facts.TimeZone == "" || c.facts.TimeZone == ours {
		c.ok("time zone", "%s", ours)
		return
	}
	c.ok("time zone", "%s here, %s on the server; the tool writes the time of here", ours, c.facts.TimeZone)
}

// checkReplicas shows how far behind a replica is: so is its backup.
func (c *checker) checkReplicas() {
	for _, r := range c.facts.Replicas {
		what := "replica of " + r.Source
		switch {
		case !r.Running:
			c.warn(what, "replication does not run"+prefix(": ", r.Error), "the backup will be as old as the data; START SLAVE?")
		case !r.LagGood:
			c.warn(what, "lag unknown", "")
		default:
			c.ok(what, "%v behind", r.Lag)
		}
	}
}

// prefix puts before in front of text unless that is empty.
func prefix(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

func (c *checker) checkGalera() {
	switch c.facts.Galera {
	case "":
	case "Synced":
		c.advise("galera", "node is synced; while a backup blocks commits it may slow the whole cluster down",
			"SET GLOBAL wsrep_desync=ON before, OFF after it; add --galera-info to keep the node's position")
	default:
		c.warn("galera", "node is "+c.facts.Galera, "take the backup of a node that is synced")
	}
}

// checkSpace compares free space with what the backup would take.
func (c *checker) checkSpace() {
	if c.o.SpaceDir == "" {
		return
	}
	need := c.o.SpaceNeed
	if need == 0 {
		need = c.facts.Data.Bytes / 3 // most data compress better
	}
	free, err := freeSpace(c.o.SpaceDir)
	detail := fmt.Sprintf("%s has %d MiB free, the backup takes about %d MiB", c.o.SpaceDir, free>>20, need>>20)
	switch {
	case err != nil:
		c.fail("free space", err.Error(), "does the directory exist?")
	case free < need:
		c.fail("free space", detail, "make room, or remove old backups")
	default:
		c.ok("free space", "%s", detail)
	}
}

// freeSpace returns how many bytes this user may still write in dir, or where it would be made.
func freeSpace(dir string) (int64, error) {
	for {
		var fs unix.Statfs_t
		err := unix.Statfs(dir, &fs)
		parent := filepath.Dir(dir)
		switch {
		case err == nil:
			return int64(fs.Bavail) * fs.Bsize, nil
		case !errors.Is(err, unix.ENOENT) || parent == dir:
			return 0, fmt.Errorf("free space of %q: %w", dir, err)
		}
		dir = parent
	}
}

// checkOthers warns when a backup is running already.
func (c *checker) checkOthers() {
	names, _ := filepath.Glob("/proc/[0-9]*/comm") // the pattern is well-formed
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		switch comm := strings.TrimSpace(string(text)); comm {
		case "mariadb-backup", "mariabackup":
			pid := filepath.Base(filepath.Dir(name))
			c.warn("other backups", comm+" is running as process "+pid, "two backups at a time slow each other and the server down")
		}
	}
}
