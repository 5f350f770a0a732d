package template

import (
	"sort"
	"strings"
)

// span is a piece of a text: text[from:to].
type span struct{ from, to int }

// token is one variable in a text, with its braces.
type token struct {
	span
	expr    string // what stands between the braces, trimmed
	shallow bool   // written `{{- … }}`
}

// scan finds the innermost variables of s from left to right: `{{`, then text in which braces occur only as
// `{…}` groups without further braces (a multi-select hash or a literal object), then `}}`. A variable right after a
// backslash is an escape and is left out. Braces within the frozen spans (sorted, disjoint) are ordinary text.
func scan(s string, frozen []span) []token {
	var out []token
	for i := 0; ; {
		at := strings.Index(s[i:], "{{")
		if at < 0 {
			return out
		}
		i += at
		end, ok := variableEnd(s, i, frozen)
		if !ok {
			i++
			continue
		}
		if i > 0 && s[i-1] == '\\' && !inside(frozen, i-1) {
			i = end
			continue
		}
		inner := s[i+2 : end-2]
		t := token{span: span{i, end}}
		if strings.HasPrefix(inner, "-") {
			t.shallow = true
			inner = inner[1:]
		}
		t.expr = strings.TrimSpace(inner)
		out = append(out, t)
		i = end
	}
}

// variableEnd is the position after the variable that begins at s[i:]; ok is false when none begins there.
func variableEnd(s string, i int, frozen []span) (end int, ok bool) {
	if inside(frozen, i) || inside(frozen, i+1) {
		return 0, false
	}
	group := false
	for j := i + 2; j < len(s); j++ {
		switch c := s[j]; {
		case c != '{' && c != '}', len(frozen) > 0 && inside(frozen, j):
		case c == '{' && group:
			return 0, false
		case c == '{':
			group = true
		case group:
			group = false
		default:
			if j+1 < len(s) && s[j+1] == '}' && !inside(frozen, j+1) {
				return j + 2, true
			}
			return 0, false
		}
	}
	return 0, false
}

// inside reports whether position i lies in one of the sorted spans.
func inside(spans []span, i int) bool {
	if len(spans) == 0 {
		return false
	}
	n := sort.Search(len(spans), func(n int) bool { return i < spans[n].to })
	return n < len(spans) && i >= spans[n].from
}

// unescape turns `\{{ … }}` into `{{ … }}` outside of the frozen spans.
func unescape(s string, frozen []span) string {
	if !strings.Contains(s, `\{{`) {
		return s
	}
	var b strings.Builder
	rest := 0
	for i := 0; i < len(s); {
		at := strings.Index(s[i:], `\{{`)
		if at < 0 {
			break
		}
		i += at
		end, ok := variableEnd(s, i+1, frozen)
		if !ok || inside(frozen, i) {
			i++
			continue
		}
		b.WriteString(s[rest:i])
		b.WriteString(s[i+1 : end])
		rest, i = end, end
	}
	if rest == 0 {
		return s
	}
	b.WriteString(s[rest:])
	return b.String()
}
