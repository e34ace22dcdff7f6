package mariadb

import (
	"bufio"
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
)

const (
	// leastMemory is the tool's own default for --use-memory.
	leastMemory = 96 << 20
	procMemory  = "/proc/meminfo"
	cgroupRoot  = "/sys/fs/cgroup"
)

// useMemory chooses how many bytes a prepare may use: half of what is free on this machine and in this control group,
// not more than most (0 is no limit), and not less than the tool's own default of 96 MiB. With the default a prepare can
// take hours.
func useMemory(most int64) int64 {
	free := memAvailable(procMemory)
	for _, room := range cgroupRooms("/proc/self/cgroup", cgroupRoot) {
		free = min(free, room)
	}
	n := free / 2
	if most > 0 {
		n = min(n, most)
	}
	return max(n&^(1<<20-1), leastMemory) // whole MiB
}

// memAvailable reads how much memory the kernel could give without swapping, in bytes; a guess of 256 MiB if it does not
// say.
func memAvailable(file string) int64 {
	text, err := os.ReadFile(file)
	if err == nil {
		s := bufio.NewScanner(bytes.NewReader(text))
		for s.Scan() {
			fields := strings.Fields(s.Text())
			if len(fields) >= 2 && fields[0] == "MemAvailable:" {
				if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
					return n << 10
				}
			}
		}
	}
	return 256 << 20
}

// cgroupRooms returns what is left of the memory limit of our control group and of each above it, in bytes. File pages
// that could be dropped count as free. Groups without a limit are left out.
func cgroupRooms(file, root string) []int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var rooms []int64
	for line := range strings.Lines(string(text)) {
		// Version 2 has "0::/path", version 1 "7:memory:/path".
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		names := cgroupFiles{dir: root, limit: "memory.max", usage: "memory.current", inactive: "inactive_file"}
		switch {
		case fields[0] == "0" && fields[1] == "":
		case strings.Contains(","+fields[1]+",", ",memory,"):
			names = cgroupFiles{root + "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
		default:
			continue
		}
		for at := path.Clean("/" + fields[2]); ; at = path.Dir(at) {
			if room, ok := names.room(at); ok {
				rooms = append(rooms, room)
			}
			if at == "/" {
				break
			}
		}
	}
	return rooms
}

// cgroupFiles names the files of one version of control groups.
type cgroupFiles struct{ dir, limit, usage, inactive string }

// room returns what is left in the group at the given path.
func (f cgroupFiles) room(at string) (int64, bool) {
	limit, ok := readNumber(path.Join(f.dir, at, f.limit))
	if !ok {
		return 0, false
	}
	usage, _ := readNumber(path.Join(f.dir, at, f.usage))
	stat, _ := os.ReadFile(path.Join(f.dir, at, "memory.stat"))
	for line := range strings.Lines(string(stat)) {
		if value, ok := strings.CutPrefix(line, f.inactive+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			usage -= n
		}
	}
	return max(0, limit-max(0, usage)), true
}

// readNumber reads a file that holds one number; "max" is none.
func readNumber(file string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
