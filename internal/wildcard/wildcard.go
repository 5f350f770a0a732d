package wildcard

import (
	"strings"
	"unicode/utf8"
)

// Match reports whether the whole of s matches pattern. It allocates nothing and takes at most len(pattern)·len(s)
// steps, also for hostile patterns such as `*a*a*a*b`.
func Match(pattern, s string) bool {
	p, t := 0, 0
	star, mark := -1, 0 // position after the last `*` seen, and where in s it stopped taking characters
	for t < len(s) {
		if p < len(pattern) {
			switch c := pattern[p]; {
			case c == '*':
				p++
				if p == len(pattern) {
					return true
				}
				star, mark = p, t
				continue
			case c == '?':
				p++
				t += width(s, t)
				continue
			case c == s[t]:
				p++
				t++
				continue
			}
		}
		if star < 0 {
			return false
		}
		// The last `*` takes one more character; an earlier `*` never has to be reconsidered.
		mark += width(s, mark)
		p, t = star, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// width is the number of bytes of the character of s that begins at i.
func width(s string, i int) int {
	if s[i] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRuneInString(s[i:])
	return n
}

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
func Has(s string) bool { return strings.IndexByte(s, '*') >= 0 || strings.IndexByte(s, '?') >= 0 }
