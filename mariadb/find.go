package mariadb

import (
	"errors"
	"fmt"

	"github.com/mbwrap/mbwrap/mariadb/internal/process"
)

// ErrNoTool is wrapped by the [UsageError] that [FindTool] returns when mariadb-backup is not installed.
var ErrNoTool = errors.New("mariadb-backup is not installed")

// UsageError says that what was asked can't be done as asked: an option that must not be given, a program that is
// missing. Nothing was started.
type UsageError struct {
	Option string // the offending option or program as it was given, without any value
	Reason string // why not: lower case, no final period
	Hint   string // what to do about it, for an operator
	Err    error  // what callers may match, or nil
}

func (e *UsageError) Error() string {
	if e.Option == "" {
		return e.Reason
	}
	return fmt.Sprintf("%s: %s", e.Option, e.Reason)
}

// Unwrap returns what callers may match.
func (e *UsageError) Unwrap() error { return e.Err }

// installTool is the hint for a missing tool.
const installTool = "install it: apt install mariadb-backup (Debian, Ubuntu), dnf install MariaDB-backup or mariadb-backup " +
	"(RHEL, Fedora), zypper install mariadb-tools (SUSE); or name it with --tool PATH"

// FindTool returns the absolute path of mariadb-backup. A path that is not empty is what the user asked for: a file, or
// the name of a program. Otherwise mariadb-backup is looked for, then its old name mariabackup; in PATH, then in the
// usual places. If there is none the error is a [*UsageError] that wraps [ErrNoTool].
func FindTool(path string) (string, error) {
	names := []string{"mariadb-backup", "mariabackup"}
	if path != "" {
		names = []string{path}
	}
	found, err := process.Find(names...)
	if err == nil {
		return found, nil
	}
	if path != "" {
		return "", &UsageError{Option: path, Reason: err.Error(), Hint: installTool, Err: ErrNoTool}
	}
	return "", &UsageError{Reason: ErrNoTool.Error(), Hint: installTool, Err: ErrNoTool}
}
