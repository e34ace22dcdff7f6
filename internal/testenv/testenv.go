// Package testenv tells tests which outside programs this machine has. It is the one place that decides whether a
// missing program skips a test or fails it; nothing but tests may import it.
package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// RequireVariable names the environment variable that lists, separated by commas, the parts that must be present: a
// missing one then fails the test instead of skipping it. "all" stands for every part.
const RequireVariable = "MBWRAP_REQUIRE"

// places are searched after PATH: server programs often stand outside a user's PATH.
var places = []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}

// Need returns the absolute path of program. If it is not installed the test is skipped, or failed when
// MBWRAP_REQUIRE names it.
func Need(t testing.TB, program string) string {
	t.Helper()
	if path, err := exec.LookPath(program); err == nil {
		if path, err = filepath.Abs(path); err == nil {
			return path
		}
	}
	for _, dir := range places {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return path
		}
	}
	Missing(t, program, "not installed")
	return ""
}

// Missing ends the test because part can't be had: a skip, or a failure when MBWRAP_REQUIRE names it.
func Missing(t testing.TB, part, why string) {
	t.Helper()
	required := strings.Split(os.Getenv(RequireVariable), ",")
	if slices.Contains(required, part) || slices.Contains(required, "all") {
		t.Fatalf("%s: %s, and %s asks for it", part, why, RequireVariable)
	}
	t.Skipf("%s: %s", part, why)
}
