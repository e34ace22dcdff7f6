package mariadb

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestUseMemory(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if got := memAvailable(put("meminfo", "MemTotal: 9 kB\nMemAvailable:    2048 kB\n")); got != 2<<20 {
		t.Errorf("available: got %d, want %d", got, 2<<20)
	}
	for _, name := range []string{put("odd", "MemAvailable: x\n"), dir + "/none"} {
		if got := memAvailable(name); got != 256<<20 {
			t.Errorf("%s: got %d, want %d", name, got, 256<<20)
		}
	}
	put("memory.max", "max\n")
	put("a/memory.max", "1000\n")
	put("a/memory.current", "600\n")
	put("a/memory.stat", "anon 5\ninactive_file 100\n")
	put("a/b/memory.max", "9000\n")
	put("memory/c/memory.limit_in_bytes", "500\n")
	put("memory/c/memory.usage_in_bytes", "800\n")
	put("memory/c/memory.stat", "total_inactive_file 100\n")
	for _, tt := range []struct{ name, text, want string }{
		{"version 2", "0::/a/b\n", "[9000 500]"},
		{"version 1", "7:cpu,memory:/c\n3:cpu:/c\nodd\n", "[0]"},
		{"none", "0::/x\n", "[]"},
	} {
		if got := fmt.Sprint(cgroupRooms(put("cgroup", tt.text), dir)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	if got := cgroupRooms(dir+"/none", dir); got != nil {
		t.Errorf("no file: got %v, want none", got)
	}
	if got := useMemory(1); got != leastMemory {
		t.Errorf("limited: got %d, want %d", got, leastMemory)
	}
	if got := useMemory(200<<20 + 5); got != 200<<20 && got < leastMemory {
		t.Errorf("limited: got %d, want at most %d, in whole MiB", got, 200<<20)
	}
	if got := useMemory(0); got < leastMemory || got%(1<<20) != 0 {
		t.Errorf("got %d, want at least %d, in whole MiB", got, leastMemory)
	}
}
