package xbstream

import (
	"maps"
	"slices"
	"strings"
)

// mergeAt is how many paths may be added behind the sorted list of a pathSet before they are merged into it.
const mergeAt = 256

// A pathSet is a set of paths, as small as a map of strings can be. For removal by prefix it keeps a sorted list, made when
// first needed, so that dropping thousands of partitioned tables among hundreds of thousands of files stays fast.
type pathSet struct {
	has    map[string]struct{}
	listed bool     // sorted and recent are kept
	sorted []string // ascending; may hold paths that are gone
	recent []string // added since sorted was made; may hold paths that are gone
}

func newPathSet() *pathSet { return &pathSet{has: make(map[string]struct{})} }

func (s *pathSet) add(path string) {
	s.has[path] = struct{}{}
	if s.listed {
		s.recent = append(s.recent, path)
	}
}

// remove reports whether path was in the set.
func (s *pathSet) remove(path string) bool {
	n := len(s.has)
	delete(s.has, path)
	return len(s.has) < n
}

// removePrefix removes every path that starts with prefix and returns how many there were.
func (s *pathSet) removePrefix(prefix string) int {
	s.list()
	before := len(s.has)
	i, _ := slices.BinarySearch(s.sorted, prefix)
	j := i
	for ; j < len(s.sorted) && strings.HasPrefix(s.sorted[j], prefix); j++ {
		delete(s.has, s.sorted[j])
	}
	s.sorted = slices.Delete(s.sorted, i, j)
	s.recent = slices.DeleteFunc(s.recent, func(path string) bool {
		if !strings.HasPrefix(path, prefix) {
			return false
		}
		delete(s.has, path)
		return true
	})
	return before - len(s.has)
}

// list brings the sorted list up to date if it is missing or far behind.
func (s *pathSet) list() {
	if s.listed && len(s.recent) <= mergeAt {
		return
	}
	if !s.listed {
		s.sorted = slices.AppendSeq(make([]string, 0, len(s.has)), maps.Keys(s.has))
	}
	s.sorted = append(s.sorted, s.recent...)
	slices.Sort(s.sorted)
	s.sorted = slices.Compact(s.sorted)
	s.recent, s.listed = s.recent[:0], true
}
