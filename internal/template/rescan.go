package template

import (
	"errors"
	"strings"

	"ephor.invalid/ephor/internal/jmespath"
)

// Limits of variables in the values of variables. Real policies nest twice; a text that refers to itself would grow for
// ever.
const (
	maxRounds = 32
	maxText   = 2 << 20
)

var errNoEnd = errors.New("variables inside of substituted text do not come to an end")

// foresight is a root that may hold only what the policy's own queries read.
type foresight interface {
	// Unforeseen is called before other queries are evaluated.
	Unforeseen()
}

// provenance is a root that knows who wrote its values.
type provenance interface {
	// Authored reports whether the author of the template wrote the values of all the names, so that variables in them are
	// the author's own.
	Authored(names []string) bool
}

// authored reports whether the result of an expression over the names is text of the author. All other results are data.
func (r run) authored(names []string) bool {
	if len(names) == 0 {
		return true // a literal
	}
	root, ok := r.root.(provenance)
	return ok && root.Authored(names)
}

// rescan evaluates the variables in a text after substitution: the outer ones of nested variables, and those that the author
// wrote into a value. The frozen spans are data, which contain no variables. A text that became exactly one variable becomes
// its typed value. The returned spans are the data in a text.
func rescan(r run, s string, frozen []span, at position) (any, []span, error) {
	for range maxRounds {
		if err := r.meter().Step(1 + len(s)/64); err != nil {
			return nil, nil, err
		}
		tokens := scan(s, frozen)
		if len(tokens) == 0 {
			s, frozen = unescape(s, frozen)
			return s, frozen, nil
		}
		if root, ok := r.root.(foresight); ok {
			root.Unforeseen()
		}
		if len(tokens) == 1 && tokens[0].span == (span{0, len(s)}) {
			v, err := lateVariable(r, tokens[0], at)
			if err != nil {
				return nil, nil, err
			}
			return v.evalData(r)
		}
		var b strings.Builder
		var kept []span
		rest := 0
		for _, t := range tokens {
			kept = shift(kept, frozen, span{rest, t.from}, b.Len()-rest)
			b.WriteString(s[rest:t.from])
			rest = t.to
			v, err := lateVariable(r, t, at)
			if err != nil {
				return nil, nil, err
			}
			val, err := v.eval(r)
			if err != nil {
				return nil, nil, err
			}
			if err := r.charge(val); err != nil {
				return nil, nil, err
			}
			from := b.Len()
			if err := v.embed(&b, val); err != nil {
				return nil, nil, err
			}
			if v.freezes(r, val) {
				kept = append(kept, span{from, b.Len()})
			}
			if b.Len() > maxText {
				return nil, nil, &ResolveError{Variable: t.expr, Path: at.path, Err: errNoEnd}
			}
		}
		kept = shift(kept, frozen, span{rest, len(s)}, b.Len()-rest)
		b.WriteString(s[rest:])
		s, frozen = b.String(), kept
		if err := r.meter().Bytes(len(s)); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, &ResolveError{Variable: scanFirst(s, frozen), Path: at.path, Err: errNoEnd}
}

// freezes reports whether the value of the variable becomes data in a text. Numbers and similar values do not, because they
// are never syntax.
func (v *variable) freezes(r run, val any) bool {
	switch val.(type) {
	case string, map[string]any, []any:
		return v.shallow || v.data || !r.authored(v.roots)
	}
	return false
}

// shift appends to kept the frozen spans within the copied piece, moved by delta.
func shift(kept, frozen []span, piece span, delta int) []span {
	for _, f := range frozen {
		if f.from >= piece.from && f.to <= piece.to {
			kept = append(kept, span{f.from + delta, f.to + delta})
		}
	}
	return kept
}

func scanFirst(s string, frozen []span) string {
	if tokens := scan(s, frozen); len(tokens) > 0 {
		return tokens[0].expr
	}
	return ""
}

// lateVariable is newVariable with the cache.
func lateVariable(r run, t token, at position) (variable, error) {
	if t.expr == "@" && len(t.data) == 0 {
		return newVariable(t, at, nil), nil
	}
	v := variable{source: t.expr, path: at.path, shallow: t.shallow, data: len(t.data) > 0}
	var err error
	v.expr, v.roots, v.err, err = r.compile(t.expr, jmespath.Quoting{Data: t.data})
	return v, err
}

// compile compiles a query that was not known in advance. fault is the query's own error, err that of the budget.
func (r run) compile(query string, q jmespath.Quoting) (x *jmespath.Expr, roots []string, fault, err error) {
	// Compiling takes far longer than the later evaluation.
	if err := r.meter().Step(compileSteps * (8 + len(query))); err != nil {
		return nil, nil, nil, err
	}
	if err := r.meter().Bytes(compileBytes * len(query)); err != nil {
		return nil, nil, nil, err
	}
	x, roots, fault = late.compile(query, q)
	return x, roots, fault, nil
}

// The steps for compiling, for each byte of an expression.
const (
	compileSteps = 12
	compileBytes = 80
)
