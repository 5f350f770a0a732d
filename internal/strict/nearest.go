package strict

import "strings"

// Nearest returns the known name that the author most likely meant, or "" if none is similar. It ignores case.
func Nearest(key string, names []string) string {
	best, bestAt := "", 3
	for _, n := range names {
		if strings.EqualFold(n, key) {
			return n
		}
		if d := Distance(strings.ToLower(key), strings.ToLower(n)); d < bestAt && 2*d <= len(n) {
			best, bestAt = n, d
		}
	}
	return best
}

// Distance returns the number of bytes to insert, remove or replace to get from a to b (Levenshtein). For texts of more than 64 bytes it
// returns 64 without comparing.
func Distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
