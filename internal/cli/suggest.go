package cli

import "strings"

// nearest returns the word that was probably meant by v, or "" if none is near: it is one that starts with v, if that
// has three letters or more, or one in which at most a third of v's letters differ.
func nearest(v string, words []string) string {
	for _, w := range words {
		if len(v) >= 3 && strings.HasPrefix(w, v) {
			return w
		}
	}
	best, bestDistance := "", len(v)/3+1
	for _, w := range words {
		if d := distance(v, w); d < bestDistance || d == bestDistance && best == "" {
			best, bestDistance = w, d
		}
	}
	return best
}

// distance counts the letters to insert, remove, replace or swap with their neighbour to turn a into b.
func distance(a, b string) int {
	var before []int // row i-2
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
