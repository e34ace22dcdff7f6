package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// machine describes where the numbers come from.
func machine() string {
	parts := []string{field("/proc/cpuinfo", "model name"), "cores: " + field("/proc/cpuinfo", "siblings"), "memory: " + field("/proc/meminfo", "MemTotal")}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		parts = append(parts, "Linux "+strings.TrimSpace(string(kernel)))
	}
	return strings.Join(append(parts, runtime.GOARCH), ", ")
}

// field returns the first value of that name in a file of "name : value" lines.
func field(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// versions returns a line for each program that was measured.
func (b *bench) versions() []string {
	var all []string
	for _, argv := range [][]string{
		{b.options.mbwrap, "version"}, {b.tool, "--version"}, {"gzip", "--version"}, {"pigz", "--version"}, {"lz4", "--version"}, {"zstd", "--version"}, {"age", "--version"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		text, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
		cancel()
		first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
		if err != nil {
			first = argv[0] + ": " + err.Error()
		}
		all = append(all, strings.ReplaceAll(strings.Trim(first, "* "), b.tool, "mariadb-backup"))
	}
	return all
}
