package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// places are searched after PATH. Cron's PATH is /usr/bin:/bin, and servers often stand elsewhere.
var places = []string{
	"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin", "/usr/libexec",
	"/usr/local/mariadb/bin", "/usr/local/mysql/bin", "/opt/*/bin", "/opt/*/sbin",
}

// Find returns the absolute path of the first of names that is there. A name with a slash stands for itself.
func Find(names ...string) (string, error) {
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
