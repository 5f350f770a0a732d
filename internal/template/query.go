package template

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/jmespath"
)

// EvalQuery is EvalString for a template whose text is a JMESPath query. It returns the text and the compiled query, in
// which the values of variables that are data count as data, too (jmespath.Quoting). names allows such a value to be the
// first name of a path, for queries over their own data. fault says why the text is not a query; err is that of EvalString.
func (t *Template) EvalQuery(env *jmespath.Env, root jmespath.Root, names bool) (query *jmespath.Expr, text string, fault, err error) {
	r := run{env, root}
	text, frozen, err := t.evalText(r)
	if err != nil {
		return nil, "", nil, err
	}
	query, _, fault, err = r.compile(text, jmespath.Quoting{Data: dataIn(frozen, 0, len(text)), Names: names})
	return query, text, fault, err
}

// EvalPattern is EvalString for a text that may have wildcards. injected reports whether a value that is data has some.
func (t *Template) EvalPattern(env *jmespath.Env, root jmespath.Root) (text string, injected bool, err error) {
	text, frozen, err := t.evalText(run{env, root})
	return text, err == nil && slices.ContainsFunc(frozen, func(f span) bool { return strings.ContainsAny(text[f.from:f.to], "*?") }), err
}

// evalText is EvalString, and also returns which parts of the text are data.
func (t *Template) evalText(r run) (text string, frozen []span, err error) {
	var v any = t.static
	switch n := t.root.(type) {
	case nil:
	case dataNode:
		v, frozen, err = n.evalData(r)
	default:
		v, err = n.eval(r)
	}
	if err != nil {
		return "", nil, err
	}
	text, ok := v.(string)
	if !ok {
		return "", nil, &NotStringError{v}
	}
	return text, frozen, nil
}

// Outline returns s with standIn in place of each variable, and false if a variable is inside another one.
func Outline(s, standIn string) (string, bool) {
	var b strings.Builder
	rest := 0
	for _, t := range scan(s, nil) {
		b.WriteString(s[rest:t.from])
		b.WriteString(standIn)
		rest = t.to
	}
	b.WriteString(s[rest:])
	return b.String(), len(scan(b.String(), nil)) == 0
}

// dataNode is a node that knows which parts of its text are data.
type dataNode interface {
	evalData(r run) (any, []span, error)
}

// Nested is an expression that contains other variables.
type Nested struct {
	Query string          // with a stand-in for each inner variable
	Data  []jmespath.Span // the stand-ins
	Roots []string        // the names that the inner variables read
}

// NestedIn lists the expressions in s that contain other variables, with standIn in place of each of these.
func NestedIn(s, standIn string) []Nested {
	var out []Nested
	var frozen []span
	roots := map[int][]string{} // by the position of the stand-in
	for range maxRounds {
		var b strings.Builder
		var kept []span
		next := map[int][]string{}
		keep := func(piece span) {
			delta := b.Len() - piece.from
			for _, f := range shift(nil, frozen, piece, delta) {
				kept = append(kept, f)
				next[f.from] = roots[f.from-delta]
			}
			b.WriteString(s[piece.from:piece.to])
		}
		tokens, rest := scan(s, frozen), 0
		if len(tokens) == 0 {
			break
		}
		for _, t := range tokens {
			keep(span{rest, t.from})
			rest = t.to
			var names []string
			start := t.from + strings.Index(s[t.from:t.to], t.expr)
			for _, d := range t.data {
				names = append(names, roots[start+d.From]...)
			}
			if len(t.data) > 0 {
				out = append(out, Nested{Query: t.expr, Data: t.data, Roots: names})
			}
			if x, err := jmespath.CompileQuoting(t.expr, jmespath.Quoting{Data: t.data}); err == nil {
				names = append(names, x.Roots()...)
			}
			next[b.Len()] = names
			kept = append(kept, span{b.Len(), b.Len() + len(standIn)})
			b.WriteString(standIn)
		}
		keep(span{rest, len(s)})
		s, frozen, roots = b.String(), kept, next
	}
	return out
}
