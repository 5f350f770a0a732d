package typecheck

import "strings"

// SkipToken returns the end of the token that starts at the given position of an expression: a name or number, a text in quotes, a comment,
// or any other single character. It is for code that rewrites expressions, or searches for the end of one. A text without a closing quote
// extends to the end of the expression.
func SkipToken(expression string, at int) int {
	rest := expression[at:]
	switch {
	case rest == "":
		return at
	case strings.HasPrefix(rest, "//"):
		if i := strings.IndexByte(rest, '\n'); i >= 0 {
			return at + i + 1
		}
		return len(expression)
	case isWord(rest[0]):
		n := 1
		for n < len(rest) && isWord(rest[n]) {
			n++
		}
		if n < len(rest) && isQuote(rest[n]) && isPrefix(rest[:n]) {
			return at + n + quoted(rest[n:], strings.ContainsAny(rest[:n], "rR"))
		}
		return at + n
	case isQuote(rest[0]):
		return at + quoted(rest, false)
	}
	return at + 1
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

func isQuote(c byte) bool { return c == '\'' || c == '"' }

// isPrefix reports whether the word before a quote belongs to the text: r for raw, b for bytes, or both.
func isPrefix(word string) bool {
	switch strings.ToLower(word) {
	case "r", "b", "rb", "br":
		return true
	}
	return false
}

// quoted returns the length of the text in quotes at the start of rest.
func quoted(rest string, raw bool) int {
	quote := rest[:1]
	if strings.HasPrefix(rest, strings.Repeat(quote, 3)) {
		quote = rest[:3]
	}
	for n := len(quote); n < len(rest); n++ {
		switch {
		case rest[n] == '\\' && !raw:
			n++
		case strings.HasPrefix(rest[n:], quote):
			return n + len(quote)
		}
	}
	return len(rest)
}
