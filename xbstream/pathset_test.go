package xbstream

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestPathSet does random things to a pathSet and to a plain map, few paths to meet often and many to be merged.
func TestPathSet(t *testing.T) {
	for _, paths := range []int{5, 300, 5000} {
		r := rand.New(rand.NewPCG(1, uint64(paths)))
		set, want := newPathSet(), map[string]struct{}{}
		for step := range 20000 {
			path := fmt.Sprintf("d%d/t%d", r.IntN(3), r.IntN(paths))
			switch r.IntN(20) {
			default:
				set.add(path)
				want[path] = struct{}{}
			case 0, 1, 2:
				_, had := want[path]
				delete(want, path)
				if got := set.remove(path); got != had {
					t.Fatalf("%d paths, step %d: remove %q: got %v, want %v", paths, step, path, got, had)
				}
			case 3:
				prefix := path[:min(len(path), 1+r.IntN(7))]
				flat := r.IntN(2) == 0
				set.removePrefix(prefix, flat)
				maps.DeleteFunc(want, func(p string, _ struct{}) bool {
					return strings.HasPrefix(p, prefix) && !(flat && strings.Contains(p[len(prefix):], "/"))
				})
				if !maps.Equal(set.has, want) {
					t.Fatalf("%d paths, step %d: after removing %q: got %d paths, want %d", paths, step, prefix, len(set.has), len(want))
				}
			}
		}
	}
}
