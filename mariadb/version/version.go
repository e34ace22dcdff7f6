// Package version reads and compares the versions of MariaDB's programs. It alone knows which versions understand each
// other's files.
package version

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/mbwrap/mbwrap/mariadb/internal/process"
)

// Number is the version of a MariaDB program, such as 10.11.19. The zero Number is an unknown one.
type Number struct{ Major, Minor, Patch int }

var versionPattern = regexp.MustCompile(`(\d{1,4})\.(\d{1,4})\.(\d{1,4})`)

// Parse finds the version in a text such as "10.11.19-MariaDB-0+deb12u1-log". It is the zero Number if there is
// none. The "5.5.5-" that servers put before their version for old replicas is left out.
func Parse(text string) Number {
	text = strings.TrimPrefix(text, "5.5.5-")
	m := versionPattern.FindStringSubmatch(text)
	if m == nil {
		return Number{}
	}
	number := func(s string) int { n, _ := strconv.Atoi(s); return n } // the pattern has only digits, few of them
	return Number{number(m[1]), number(m[2]), number(m[3])}
}

// String returns the usual form, "unknown" for the zero Number.
func (v Number) String() string {
	if v == (Number{}) {
		return "unknown"
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// Compare orders versions by time of their series, then by patch level.
func (v Number) Compare(w Number) int {
	return cmp.Or(v.CompareSeries(w), cmp.Compare(v.Patch, w.Patch))
}

// ReadsRedoOf tells whether a tool of version v can read the redo log of a server of version made. From 10.8 on the log
// looks as it does today, and tools from then on can't read older ones. The tool must also not be of an older series,
// see [Number.CompareSeries].
func (v Number) ReadsRedoOf(made Number) bool {
	change := Number{10, 8, 0}
	return v.Compare(change) < 0 || made.Compare(change) >= 0
}

// CompareSeries compares the first two numbers only: programs of one series understand each other's files.
func (v Number) CompareSeries(w Number) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor))
}

// Of asks the program at path for its version and returns it, and the line in which it said so. A program that
// does not answer within ten seconds is stopped.
func Of(ctx context.Context, path string) (Number, string, error) {
	out, err := process.Ask(ctx, path, "--version")
	if err != nil {
		return Number{}, "", fmt.Errorf("ask %s for its version: %w", filepath.Base(path), err)
	}
	for line := range strings.Lines(out) {
		if v := Parse(line); v != (Number{}) {
			return v, strings.TrimSpace(line), nil
		}
	}
	return Number{}, "", fmt.Errorf("ask %s for its version: answer %q has none", filepath.Base(path), process.Clip(out))
}
