package wildcard

import (
	"strings"
	"unicode/utf8"
)

// Match reports whether the whole of s matches pattern. It allocates nothing. It searches the pieces between the stars one
// after the other, each once, since an earlier star never has to be reconsidered. That takes time linear in s, even for
// hostile patterns such as `*a*a*a*b`. Only a piece with a `?` is tried at each position of s; see Cost.
func Match(pattern, s string) bool {
	piece, rest, more := strings.Cut(pattern, "*")
	n := begin(piece, s)
	if n < 0 {
		return false
	}
	if !more {
		return n == len(s)
	}
	s = s[n:]
	for {
		piece, rest, more = strings.Cut(rest, "*")
		if !more {
			return end(piece, s)
		}
		if piece == "" {
			if rest = strings.TrimLeft(rest, "*"); rest == "" {
				return true
			}
			continue
		}
		if n = find(piece, s); n < 0 {
			return false
		}
		s = s[n:]
	}
}

// begin returns the length of the prefix of s that matches piece, which has no star; negative for none.
func begin(piece, s string) int {
	t := 0
	for p := 0; p < len(piece); p++ {
		switch {
		case t >= len(s):
			return -1
		case piece[p] == '?':
			t += width(s, t)
		case piece[p] == s[t]:
			t++
		default:
			return -1
		}
	}
	return t
}

// find returns the end of the first match of piece in s; negative for none.
func find(piece, s string) int {
	if strings.IndexByte(piece, '?') < 0 {
		if i := strings.Index(s, piece); i >= 0 {
			return i + len(piece)
		}
		return -1
	}
	for i := 0; i <= len(s); i += width(s, i) {
		if n := begin(piece, s[i:]); n >= 0 {
			return i + n
		}
		if i == len(s) {
			break
		}
	}
	return -1
}

// end reports whether piece matches the end of s.
func end(piece, s string) bool {
	t := len(s)
	for p := len(piece) - 1; p >= 0; p-- {
		switch {
		case t <= 0:
			return false
		case piece[p] == '?':
			_, n := utf8.DecodeLastRuneInString(s[:t])
			t -= n
		case piece[p] == s[t-1]:
			t--
		default:
			return false
		}
	}
	return true
}

// readPerStep is the number of bytes that are read in a step, and triedPerStep the number of comparisons of a part with a `?`.
const readPerStep, triedPerStep = 8, 4

// Cost returns an upper bound of the work of Match(pattern, s) in steps of some nanoseconds, for a caller that counts its steps. Both are
// read once, but each part of the pattern with a `?` is compared at each position of s.
func Cost(pattern, s string) int { return work(pattern, s, tried(pattern)) }

func work(pattern, s string, tried int) int {
	return (len(pattern)+len(s))/readPerStep + tried*len(s)/triedPerStep
}

// tried returns the length of the longest part of the pattern that is compared at each position of a text: those between two `*` that have a
// `?`.
func tried(pattern string) (longest int) {
	_, rest, more := strings.Cut(pattern, "*") // the first part is compared with the beginning
	for more {
		var part string
		if part, rest, more = strings.Cut(rest, "*"); more && strings.IndexByte(part, '?') >= 0 {
			longest = max(longest, len(part))
		}
	}
	return longest
}

// width returns the number of bytes of the character of s that begins at i.
func width(s string, i int) int {
	if i >= len(s) || s[i] < utf8.RuneSelf {
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
