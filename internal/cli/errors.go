package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/internal/backup"
	"github.com/mbwrap/mbwrap/internal/config"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/restore"
	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/xbstream"
)

// The exit codes. 2 is never chosen: a Go program that crashes exits with 2.
const (
	exitDone     = 0
	exitOther    = 1
	exitWarnings = 3
	exitSource   = 4
	exitStream   = 5
	exitSink     = 6
	exitKey      = 7
	exitDamage   = 8
	exitUnfit    = 9
	exitNoBackup = 10
	exitLocked   = 11
	exitTimeout  = 12
	exitUsage    = 64
	exitSignal   = 128 // plus the signal's number
)

// exitCodes describes the codes: name is the "code" of an error in JSON.
var exitCodes = []struct {
	code          int
	name, meaning string
}{
	{exitDone, "done", "done"},
	{exitOther, "other", "not done, no better code"},
	{exitWarnings, "warnings", "done, with warnings that someone should read"},
	{exitSource, "source", "the source failed (mariadb-backup, the server)"},
	{exitStream, "stream", "the stream is damaged or incomplete"},
	{exitSink, "sink", "a sink failed"},
	{exitKey, "key", "key missing or wrong"},
	{exitDamage, "damage", "verification found damage"},
	{exitUnfit, "unfit", "not fit, or too old"},
	{exitNoBackup, "no-backup", "no such backup"},
	{exitLocked, "locked", "locked by another run"},
	{exitTimeout, "timeout", "timed out or stalled"},
	{exitUsage, "usage", "usage or configuration"},
	{exitSignal + int(syscall.SIGHUP), "hangup", "the terminal or its session went away"},
	{exitSignal + int(syscall.SIGINT), "interrupted", "interrupted"},
	{exitSignal + int(syscall.SIGTERM), "terminated", "terminated"},
}

// Kinds of endings that commands report when no room's error says it. Wrap them for the message.
var (
	errWarnings = errors.New("done, with warnings")
	errSource   = errors.New("the source failed")
	errDamage   = errors.New("damaged")
	errUnfit    = errors.New("not fit")
	errNoBackup = errors.New("no such backup")
	errTimeout  = errors.New("out of time")
	errLost     = errors.New("too much of it is lost")
	errNoRepo   = errors.New("no repository given")
)

// rule maps errors to a code and a hint. A hint is a question or a command that the operator can run.
type rule struct {
	match func(error) bool
	code  int
	hint  string
}

// rules is the one table from error to exit code. The first match counts, so causes stand before what they cause: a
// failing tool before the broken stream that it leaves behind, a full disk before the sink that reports it.
var rules = []rule{
	// what the caller did
	{as[*usageError], exitUsage, ""},
	{is(config.ErrExposed), exitUsage, "whose file is this, and who else needs to read it?"},
	{as[*config.Error], exitUsage, "which flags are there? each is a name in the file; try: mbwrap help COMMAND"},

	// endings that commands choose
	{is(errDamage), exitDamage, "which backups are good? try: mbwrap list"},
	{is(errUnfit), exitUnfit, ""},
	{is(errLost), exitStream, ""},
	{is(errNoBackup), exitNoBackup, "which backups are there? try: mbwrap list"},
	{is(errTimeout), exitTimeout, ""},
	{is(context.DeadlineExceeded), exitTimeout, ""},
	{is(errNoSpace), exitSink, "is the disk full? try: df -h"},
	{is(errSource), exitSource, "can a backup succeed here? try: mbwrap check"},
	{is(errWarnings), exitWarnings, ""},

	// what the rooms report
	{as[*keyFileError], exitKey, ""},
	{as[*catalog.KeyError], exitKey, ""}, // its hint names the recipients
	{is(encrypt.ErrNoMatch), exitKey, "is the key the one that this was encrypted to? give it with --identity FILE"},
	{is(encrypt.ErrMixed), exitUsage, "age keeps post-quantum and other recipients apart: which of them is it to be?"},
	{as[*mariadb.UsageError], exitUsage, ""},
	{as[*sinks.LockedError], exitLocked, "is the other run alive? wait for it: --wait-lock 1h"},
	{is(backup.ErrStalled), exitTimeout, "is the server stuck, or waiting for a lock? try: mbwrap check; or a longer --stall-timeout"},
	{is(backup.ErrMaxRuntime), exitTimeout, "is it just slow? try a longer --max-runtime"},
	{is(syscall.ENOSPC), exitSink, "is the disk full? try: df -h"},
	{is(syscall.EDQUOT), exitSink, "is the quota used up? try: quota"},
	{is(syscall.EROFS), exitSink, "is the file system mounted read-only? try: mount"},
	{as[*backup.SinkError], exitSink, "is it still there, and may you write to it?"},
	{as[*catalog.RepositoryError], exitSink, "is its disk mounted, and may you write to it?"},
	{as[*mariadb.ToolError], exitSource, "can a backup succeed here? try: mbwrap check"},
	{as[*mariadb.SuspectError], exitSource, "what did it say? try: mbwrap backup -v"},
	{as[*restore.NotEmptyError], exitUsage, "is this the right directory? move what is in it away first"},
	{as[*restore.UnfinishedError], exitUsage, "is that restore still wanted? then go on with it; else remove its directory"},
	{as[*restore.LockedError], exitLocked, "is the other restore alive? try: pgrep -a mbwrap"},
	{as[*restore.SpaceError], exitSink, "is there a larger file system? try: df -h"},
	{as[*restore.VersionError], exitUsage, "is a newer mariadb-backup installed elsewhere? name it with --tool PATH"},
	{as[*restore.FormatError], exitStream, "is this a backup, and a whole one?"},
	{is(restore.ErrNothing), exitNoBackup, "what is in it? try: mbwrap files BACKUP"},
	{is(restore.ErrIncremental), exitUsage, ""},
	{is(restore.ErrMismatch), exitStream, "how much of it is damaged? try: mbwrap verify"},
	{is(backup.ErrShrunk), exitStream, "was data deleted? then run once without --fail-on-shrink"},
	{is(backup.ErrPosition), exitStream, "is this really a backup of a server? try: --expect any with --to"},
	{is(xbstream.ErrEmpty), exitStream, "did the source write anything? run it alone and look"},
	{is(xbstream.ErrMetadata), exitStream, "was the stream cut? what is only part of a backup needs --expect any"},
	{as[*xbstream.Error], exitStream, "how much of it is damaged? try: mbwrap verify"},
	{is(pipeline.ErrBlock), exitStream, "how much of it is damaged? try: mbwrap verify"},
	{is(encrypt.ErrDamaged), exitStream, "how much of it is damaged? try: mbwrap verify"},
	{is(codec.ErrCorrupt), exitStream, "was it cut or changed on its way? compare it with where it came from"},
	{is(catalog.ErrMissing), exitStream, "what else is missing? try: mbwrap verify"},
	{is(catalog.ErrIndex), exitStream, "how much of it is damaged? try: mbwrap verify"},
	{is(catalog.ErrAltered), exitStream, "who can write to the repository? look at docs/SECURITY.md; try: mbwrap verify"},
	{is(catalog.ErrManifest), exitStream, "how much of it is damaged? try: mbwrap verify"},
	{is(catalog.ErrNoBackup), exitNoBackup, "which backups are there? try: mbwrap list"},
	{is(catalog.ErrAmbiguous), exitUsage, "which one? try: mbwrap list"},
	{is(catalog.ErrNotRepository), exitUsage, "is this the right directory, and is its disk mounted?"},
	{is(catalog.ErrNotEmpty), exitUsage, "is this the right directory? a new repository wants an empty one"},
	{is(catalog.ErrFormat), exitUsage, "is there a newer mbwrap? this is: mbwrap version"},
	{is(catalog.ErrServerName), exitUsage, "which servers are there? try: mbwrap list"},

	// the machine
	{is(exec.ErrNotFound), exitUsage, "is it installed, and in the PATH that this run has? cron's is short"},
	{as[*outputError], exitSink, "did what reads it end early?"},
	{is(fs.ErrPermission), exitOther, "does this need to run as root, or as the user mysql?"},
}

// is matches errors that wrap target.
func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// as matches errors that wrap one of type T.
func as[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// judge returns the exit code and the hint for err.
func judge(err error) (code int, hint string) {
	if err == nil {
		return exitDone, ""
	}
	if s, ok := errors.AsType[*Signal](err); ok {
		return exitSignal + int(s.Number), ""
	}
	code = exitOther
	for _, r := range rules {
		if r.match(err) {
			code, hint = r.code, r.hint
			break
		}
	}
	if own, ok := errors.AsType[*hintError](err); ok {
		hint = own.hint
	}
	if u, ok := errors.AsType[*usageError](err); ok {
		hint = u.advice()
	}
	if advice := toolAdvice(err); advice != "" {
		hint = advice
	}
	if advice := keyAdvice(err); advice != "" && code == exitKey {
		hint = advice
	}
	return code, hint
}

// keyAdvice says which key is wanted.
func keyAdvice(err error) string {
	if e, ok := errors.AsType[*keyFileError](err); ok {
		return e.hint
	}
	e, ok := errors.AsType[*catalog.KeyError](err)
	switch {
	case !ok:
		return ""
	case slices.Contains(e.Recipients, "passphrase"):
		return "what is its passphrase? give it with --passphrase-file FILE"
	}
	return "where is the identity of " + listed(e.Recipients) + "? give it with --identity FILE"
}

// toolAdvice returns what the tool's room knows about its own errors.
func toolAdvice(err error) string {
	if e, ok := errors.AsType[*mariadb.UsageError](err); ok {
		return e.Hint
	}
	if e, ok := errors.AsType[*mariadb.ToolError](err); ok {
		return e.Hint
	}
	if e, ok := errors.AsType[*mariadb.SuspectError](err); ok {
		return e.Hint
	}
	return ""
}

// exitName returns the name of a code for JSON.
func exitName(code int) string {
	for _, e := range exitCodes {
		if e.code == code {
			return e.name
		}
	}
	return fmt.Sprintf("signal-%d", code-exitSignal)
}

// Signal is the cause of a context that a signal ended.
type Signal struct{ Number syscall.Signal }

func (s *Signal) Error() string {
	switch s.Number {
	case syscall.SIGINT:
		return "interrupted"
	case syscall.SIGTERM:
		return "terminated"
	case syscall.SIGHUP:
		return "hung up"
	}
	return "ended by signal " + s.Number.String()
}

// endedError is what a run returned after a signal ended it.
type endedError struct {
	signal *Signal
	err    error
}

func (e *endedError) Error() string {
	if onlyCancelled(e.err) {
		return e.signal.Error()
	}
	return e.signal.Error() + ": " + e.err.Error()
}

func (e *endedError) Unwrap() []error { return []error{e.signal, e.err} }

// withCause adds to err the signal that ended ctx, if one did: a room may only know that it was cancelled.
func withCause(ctx context.Context, err error) error {
	signal, ok := errors.AsType[*Signal](context.Cause(ctx))
	if err == nil || !ok {
		return err
	}
	return &endedError{signal, err}
}

// onlyCancelled tells whether err says no more than that the run was cancelled; cleaning up may have gone wrong besides,
// or something be left that the operator must know of.
func onlyCancelled(err error) bool {
	switch e := err.(type) {
	case *restore.IncompleteError:
		return false
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !onlyCancelled(err) })
	case interface{ Unwrap() error }:
		return onlyCancelled(e.Unwrap())
	case *Signal:
		return true
	}
	return err == nil || err == context.Canceled
}

// usageError is a mistake in the command line, the environment or the file.
type usageError struct {
	err  error
	cmd  string // the command, if known
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// advice is the error's own hint, or where to read on.
func (e *usageError) advice() string {
	switch {
	case e.hint != "":
		return e.hint
	case e.cmd != "":
		return "how is it used? try: mbwrap " + e.cmd + " --help"
	}
	return "how is it used? try: mbwrap help"
}

// usagef makes a usage error.
func usagef(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}

// errorf is fmt.Errorf, short for messages inside other errors.
func errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// hintError carries a hint that only the place of the error knows.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// withHint gives err a hint in place of the table's.
func withHint(err error, hint string) error { return &hintError{err, hint} }

// reportedError is an ending whose report has been printed: it sets the exit code and says nothing more.
type reportedError struct{ err error }

func (e *reportedError) Error() string { return e.err.Error() }
func (e *reportedError) Unwrap() error { return e.err }

// reported marks err as told.
func reported(err error) error { return &reportedError{err} }

// quoted lists words for a message.
func quoted(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(all, " ")
}
