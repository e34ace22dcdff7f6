package cli

// nearest returns the word that was probably meant by v, or "" if none is near: a third of the letters may differ, and
// a beginning of three letters or more counts as near.
func nearest(v string, words []string) string {
	best, bestDistance := "", len(v)/3+1
	for _, w := range words {
		d := distance(v, w)
		if d < bestDistance || d == bestDistance && best == "" {
			best, bestDistance = w, d
		}
	}
	if best != "" || len(v) < 3 {
		return best
	}
	for _, w := range words {
		if len(w) > len(v) && w[:len(v)] == v {
			return w
		}
	}
	return ""
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
