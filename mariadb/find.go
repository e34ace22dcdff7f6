package mariadb

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// places are searched after PATH. Cron's PATH is /usr/bin:/bin, and servers often stand elsewhere.
var places = []string{
	"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin", "/usr/libexec",
	"/usr/local/mariadb/bin", "/usr/local/mysql/bin", "/opt/*/bin", "/opt/*/sbin",
}

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
	found, err := findProgram(names...)
	if err == nil {
		return found, nil
	}
	if path != "" {
		return "", &UsageError{Option: path, Reason: err.Error(), Hint: installTool, Err: ErrNoTool}
	}
	return "", &UsageError{Reason: ErrNoTool.Error(), Hint: installTool, Err: ErrNoTool}
}

// findProgram returns the absolute path of the first of names that is there. A name with a slash stands for itself.
func findProgram(names ...string) (string, error) {
	var first error
	for _, name := range names {
		path, err := lookup(name)
		if err == nil {
			return filepath.Abs(path)
		}
		if first == nil {
			first = err
		}
	}
	return "", first
}

// lookup searches PATH and the usual places for name.
func lookup(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	var e *exec.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	if strings.Contains(name, "/") {
		return "", err
	}
	for _, pattern := range places {
		dirs, _ := filepath.Glob(pattern) // the patterns are well-formed
		for _, dir := range dirs {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("not found in PATH nor in the usual places")
}
