package config

import "strings"

// nearest gives the candidate that name is most likely a slip of: at most two
// letters changed, left out, added or swapped, and less than half of them; or
// the same but for case, hyphens and underscores. "" if there is none.
func nearest(name string, candidates []string) string {
	plain := func(s string) string {
		return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(s))
	}
	best, least := "", 3
	if len(name) > 64 {
		return ""
	}
	for _, c := range candidates {
		if plain(c) == plain(name) {
			return c
		}
		if d := distance(plain(name), plain(c)); d < least && d*2 < len(c) {
			best, least = c, d
		}
	}
	return best
}

// distance is the optimal string alignment distance in bytes.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
