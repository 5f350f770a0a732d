package template

import (
	"sort"
	"strings"

	"ephor.invalid/ephor/internal/jmespath"
)

// span is a part of a text: text[from:to].
type span struct{ from, to int }

// token is one variable in a text, with its braces.
type token struct {
	span
	expr    string          // the text between the braces, trimmed
	shallow bool            // written `{{- … }}`
	data    []jmespath.Span // the frozen parts of expr
}

// scan finds the innermost variables in s from left to right: `{{`, then text in which braces occur only as `{…}` groups
// without further braces (a multi-select hash or a literal object), then `}}`. A variable right after a backslash is an escape
// and is ignored. Nothing within the frozen spans (sorted, disjoint) is syntax.
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
		t := token{span: span{i, end}}
		from, to := i+2, end-2
		if from < to && s[from] == '-' && !inside(frozen, from) {
			t.shallow = true
			from++
		}
		for from < to && blank(s[from]) && !inside(frozen, from) {
			from++
		}
		for from < to && blank(s[to-1]) && !inside(frozen, to-1) {
			to--
		}
		t.expr = s[from:to]
		if len(frozen) > 0 {
			t.data = dataIn(frozen, from, to)
		}
		out = append(out, t)
		i = end
	}
}

func blank(c byte) bool {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f'
}

// dataIn returns the spans within text[from:to], relative to from.
func dataIn(spans []span, from, to int) []jmespath.Span {
	var out []jmespath.Span
	for _, f := range spans {
		if f.from >= from && f.to <= to {
			out = append(out, jmespath.Span{From: f.from - from, To: f.to - from})
		}
	}
	return out
}

// variableEnd returns the position after the variable that begins at s[i:]; ok is false if none begins there.
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

// unescape turns `\{{ … }}` into `{{ … }}` outside the frozen spans, and returns the new positions of these.
func unescape(s string, frozen []span) (string, []span) {
	if !strings.Contains(s, `\{{`) {
		return s, frozen
	}
	var b strings.Builder
	var kept []span
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
		kept = shift(kept, frozen, span{rest, i}, b.Len()-rest)
		b.WriteString(s[rest:i])
		kept = shift(kept, frozen, span{i + 1, end}, b.Len()-i-1)
		b.WriteString(s[i+1 : end])
		rest, i = end, end
	}
	if rest == 0 {
		return s, frozen
	}
	kept = shift(kept, frozen, span{rest, len(s)}, b.Len()-rest)
	b.WriteString(s[rest:])
	return b.String(), kept
}
