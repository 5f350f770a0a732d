package engine

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/policy"
)

// denialText returns the message of a denied request: a YAML map policy → rule → message of every result that is neither pass nor skip,
// with sorted keys and an indentation of two. Two policies with the same name share one entry, and a later result of the same rule replaces
// the earlier one.
func denialText(req *policy.Request, results []policy.Result) string {
	lines := make([]denial, 0, len(results))
	size := 0
	for i := range results {
		r := &results[i]
		if r.Status == policy.StatusPass || r.Status == policy.StatusSkip {
			continue
		}
		l := denial{policy: r.Program.Name, rule: r.Rule.Name, message: r.Explained()}
		lines = append(lines, l)
		size += len(l.policy) + len(l.rule) + len(l.message) + 12
	}
	b := make([]byte, 0, size+len(req.GVK.Kind)+len(req.Namespace)+len(req.Name)+72)
	b = append(b, "\n\nresource "...)
	b = append(b, req.GVK.Kind...)
	b = append(b, '/')
	if req.GVK.Kind != "Namespace" || req.GVK.Group != "" {
		// The API server sends a Namespace's own name as its namespace; the message omits it.
		b = append(b, req.Namespace...)
	}
	b = append(b, '/')
	b = append(b, req.Name...)
	b = append(b, " was blocked due to the following policies \n\n"...)
	return string(appendDenials(b, lines))
}

// denial is one line of the YAML map of denialText.
type denial struct{ policy, rule, message string }

// appendDenials writes the map. The sort is stable, so that the later of two lines with the same keys wins.
func appendDenials(b []byte, lines []denial) []byte {
	slices.SortStableFunc(lines, func(x, y denial) int {
		if x.policy != y.policy {
			return compareKeys(x.policy, y.policy)
		}
		return compareKeys(x.rule, y.rule)
	})
	start := len(b)
	last := ""
	for i, l := range lines {
		if i+1 < len(lines) && lines[i+1].policy == l.policy && lines[i+1].rule == l.rule {
			continue
		}
		ok := true
		if last != l.policy || len(b) == start {
			if b, ok = appendKey(b, l.policy); !ok {
				return appendEncoded(b[:start], lines)
			}
			b = append(b, '\n')
			last = l.policy
		}
		b = append(b, "  "...)
		if b, ok = appendKey(b, l.rule); !ok {
			return appendEncoded(b[:start], lines)
		}
		b = append(b, ' ')
		if b, ok = appendScalar(b, l.message); !ok {
			return appendEncoded(b[:start], lines)
		}
		b = append(b, '\n')
	}
	return b
}

// appendKey writes a mapping key. Long keys have the explicit form, which the encoder writes.
func appendKey(b []byte, s string) ([]byte, bool) {
	if len(s) > 100 {
		return b, false
	}
	b, ok := appendScalar(b, s)
	return append(b, ':'), ok
}

// appendScalar writes s as the YAML encoder would in block context, for typical texts: printable ASCII that begins with a letter and does
// not end with a blank. Such a text is plain, or single-quoted if it looks as if it contained a mapping value or a comment. ok is false for
// every other text.
func appendScalar(b []byte, s string) (_ []byte, ok bool) {
	if s == "" || !isLetter(s[0]) || s[len(s)-1] == ' ' || len(s) <= 5 && resolvesToOther(s) {
		return b, false
	}
	quote := s[len(s)-1] == ':'
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c < ' ' || c > '~':
			return b, false
		case c == ' ' && i+1 < len(s) && s[i+1] == '#', c == ':' && i+1 < len(s) && s[i+1] == ' ':
			quote = true
		}
	}
	if !quote {
		return append(b, s...), true
	}
	b = append(b, '\'')
	for {
		i := strings.IndexByte(s, '\'')
		if i < 0 {
			break
		}
		b = append(b, s[:i+1]...)
		b = append(b, '\'')
		s = s[i+1:]
	}
	b = append(b, s...)
	return append(b, '\''), true
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// resolvesToOther reports whether a YAML parser would read the short word as a boolean or null, so that it needs quotes.
func resolvesToOther(s string) bool {
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return true
	}
	return false
}
