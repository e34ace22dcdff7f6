package xbstream

import (
	"maps"
	"slices"
	"strings"
)

// A pathSet is a set of paths, as small as a map of strings can be. For removal by prefix it keeps a sorted list, made when
// first needed, so that dropping thousands of partitioned tables among hundreds of thousands of files stays fast.
type pathSet struct {
	has    map[string]struct{}
	listed bool     // sorted and recent are kept
	sorted []string // ascending; may hold paths that are gone
	recent []string // added since sorted was made; may hold paths that are gone
}

const (
	// mergeAt and mergePart say when recent is merged into sorted: when it has more than mergeAt paths and a mergePart-th
	// of those in sorted. Until then it is searched from end to end.
	mergeAt, mergePart = 256, 64
	// cutAt is the number of neighbours in sorted at which cutting them out pays more than passing over them next time.
	cutAt = 64
)

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

// begins tells whether path starts with prefix; when flat is set what follows must lie in the same directory.
func begins(path, prefix string, flat bool) bool {
	rest, found := strings.CutPrefix(path, prefix)
	return found && !(flat && strings.Contains(rest, "/"))
}

// removePrefix removes every path that starts with prefix; when flat is set only those of the prefix's own directory.
func (s *pathSet) removePrefix(prefix string, flat bool) {
	s.list()
	i, _ := slices.BinarySearch(s.sorted, prefix)
	j, kept := i, 0
	for ; j < len(s.sorted) && strings.HasPrefix(s.sorted[j], prefix); j++ {
		if !begins(s.sorted[j], prefix, flat) {
			kept++
			continue
		}
		delete(s.has, s.sorted[j])
	}
	if kept == 0 && j-i >= cutAt {
		s.sorted = slices.Delete(s.sorted, i, j)
	}
	s.recent = slices.DeleteFunc(s.recent, func(path string) bool {
		if !begins(path, prefix, flat) {
			return false
		}
		delete(s.has, path)
		return true
	})
}

// list makes the sorted list, or merges what was added since.
func (s *pathSet) list() {
	if !s.listed {
		s.sorted, s.listed = slices.Sorted(maps.Keys(s.has)), true
		return
	}
	if len(s.recent) <= mergeAt+len(s.sorted)/mergePart {
		return
	}
	slices.Sort(s.recent)
	merged := make([]string, 0, len(s.has))
	for a, b := s.sorted, s.recent; len(a)+len(b) > 0; {
		from := &a
		if len(a) == 0 || len(b) > 0 && b[0] < a[0] {
			from = &b
		}
		path := (*from)[0]
		*from = (*from)[1:]
		if _, ok := s.has[path]; ok && (len(merged) == 0 || merged[len(merged)-1] != path) {
			merged = append(merged, path)
		}
	}
	s.sorted, s.recent = merged, s.recent[:0]
}
