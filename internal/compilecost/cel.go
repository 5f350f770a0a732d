package compilecost

import "time"

// What the CEL library takes at most to parse, check and plan an expression.
const (
	celTime               = 500 * time.Microsecond
	tokenTime             = 20 * time.Microsecond
	tokenBytes, tokenHeld = 1600, 128
	pairTime              = 2 * time.Microsecond // for each pair of calls and literals: the type checker compares their types
)

// celCost returns what an expression costs by its tokens.
func celCost(expression string) Cost {
	n := int64(tokens(expression))
	return Cost{Time: celTime + time.Duration(n)*tokenTime, Peak: n * tokenBytes, Held: n * tokenHeld}
}

// CELTypes returns the additional cost of checking the types of an expression with this number of calls, lists, maps and macros.
func CELTypes(makers int) Cost {
	return Cost{Time: time.Duration(makers) * time.Duration(makers) * pairTime}
}

// tokens returns an upper bound of the number of tokens of an expression. The words and signs in texts and comments count, too, so that no
// spelling hides tokens as text.
func tokens(s string) (n int) {
	inWord := false
	for i := range len(s) {
		switch c := s[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
			inWord = false
		case c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80:
			if !inWord {
				n++
			}
			inWord = true
		default:
			n++
			inWord = false
		}
	}
	return n
}
