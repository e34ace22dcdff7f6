package mariadb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Version is the version of a MariaDB program, such as 10.11.19. The zero Version is an unknown one.
type Version struct{ Major, Minor, Patch int }

var versionPattern = regexp.MustCompile(`(\d{1,4})\.(\d{1,4})\.(\d{1,4})`)

// ParseVersion finds the version in a text such as "10.11.19-MariaDB-0+deb12u1-log". It is the zero Version if there is
// none. The "5.5.5-" that servers put before their version for old replicas is left out.
func ParseVersion(text string) Version {
	text = strings.TrimPrefix(text, "5.5.5-")
	m := versionPattern.FindStringSubmatch(text)
	if m == nil {
		return Version{}
	}
	number := func(s string) int { n, _ := strconv.Atoi(s); return n } // the pattern has only digits, few of them
	return Version{number(m[1]), number(m[2]), number(m[3])}
}

// String returns the usual form, "unknown" for the zero Version.
func (v Version) String() string {
	if v == (Version{}) {
		return "unknown"
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// Compare orders versions by time of their series, then by patch level.
func (v Version) Compare(w Version) int {
	return cmp.Or(v.CompareSeries(w), cmp.Compare(v.Patch, w.Patch))
}

// CompareSeries compares the first two numbers only: programs of one series understand each other's files.
func (v Version) CompareSeries(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor))
}

// askTimeout bounds a question to a program that should answer at once.
const askTimeout = 10 * time.Second

// ToolVersion asks the program at path for its version and returns it, and the line in which it said so. A program that
// does not answer within ten seconds is stopped.
func ToolVersion(ctx context.Context, path string) (Version, string, error) {
	out, err := ask(ctx, path, "--version")
	if err != nil {
		return Version{}, "", fmt.Errorf("ask %s for its version: %w", filepath.Base(path), err)
	}
	for line := range strings.Lines(out) {
		if v := ParseVersion(line); v != (Version{}) {
			return v, strings.TrimSpace(line), nil
		}
	}
	return Version{}, "", fmt.Errorf("ask %s for its version: answer %q has none", filepath.Base(path), clip(out))
}

// ask runs a program that answers a question and returns what it wrote to both its outputs, at most 1 MiB.
func ask(ctx context.Context, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = withoutSecrets(cmd.Environ())
	cmd.Stdout = &limitedWriter{w: &out, left: maxMetadata}
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("%w: %s", err, clip(strings.TrimSpace(out.String())))
	}
	return out.String(), err
}

// limitedWriter passes on the first left bytes and swallows the rest.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	keep := p[:min(len(p), l.left)]
	l.left -= len(keep)
	if _, err := l.w.Write(keep); err != nil {
		return 0, err
	}
	return len(p), nil
}
