package template

import (
	"errors"
	"strings"
)

// Limits of variables that come out of variables. Real policies nest twice; data that refers to itself would grow for
// ever.
const (
	maxRounds = 32
	maxText   = 2 << 20
)

var errNoEnd = errors.New("variables inside of substituted text do not come to an end")

// foresight is a root that holds no more than what the policy's own queries read.
type foresight interface {
	// Unforeseen is called before other queries are evaluated.
	Unforeseen()
}

// rescan expands the variables that a text holds after substitution: the outer ones of nested variables, and those that
// arrived inside of values. A text that became exactly one variable gives its typed value.
func rescan(r run, s string, frozen []span, at place) (any, error) {
	for range maxRounds {
		if err := r.meter().Step(1 + len(s)/64); err != nil {
			return nil, err
		}
		tokens := scan(s, frozen)
		if len(tokens) == 0 {
			return unescape(s, frozen), nil
		}
		if root, ok := r.root.(foresight); ok {
			root.Unforeseen()
		}
		if len(tokens) == 1 && tokens[0].span == (span{0, len(s)}) {
			v, err := lateVariable(r, tokens[0], at)
			if err != nil {
				return nil, err
			}
			return v.eval(r)
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
				return nil, err
			}
			val, err := v.eval(r)
			if err != nil {
				return nil, err
			}
			if err := r.weigh(val); err != nil {
				return nil, err
			}
			from := b.Len()
			if err := v.embed(&b, val); err != nil {
				return nil, err
			}
			if t.shallow {
				kept = append(kept, span{from, b.Len()})
			}
			if b.Len() > maxText {
				return nil, &ResolveError{Variable: t.expr, Path: at.path, Err: errNoEnd}
			}
		}
		kept = shift(kept, frozen, span{rest, len(s)}, b.Len()-rest)
		b.WriteString(s[rest:])
		s, frozen = b.String(), kept
		if err := r.meter().Bytes(len(s)); err != nil {
			return nil, err
		}
	}
	return nil, &ResolveError{Variable: scanFirst(s, frozen), Path: at.path, Err: errNoEnd}
}

// shift appends to kept the frozen spans within the copied piece, moved by delta.
func shift(kept, frozen []span, piece span, delta int) []span {
	for _, f := range frozen {
		from, to := max(f.from, piece.from), min(f.to, piece.to)
		if from < to {
			kept = append(kept, span{from + delta, to + delta})
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

// lateVariable is newVariable through the cache.
func lateVariable(r run, t token, at place) (variable, error) {
	if t.expr == "@" {
		return newVariable(t, at), nil
	}
	// Compiling takes far longer than what an expression does afterwards.
	if err := r.meter().Step(compileSteps * (8 + len(t.expr))); err != nil {
		return variable{}, err
	}
	if err := r.meter().Bytes(compileBytes * len(t.expr)); err != nil {
		return variable{}, err
	}
	v := variable{source: t.expr, path: at.path, shallow: t.shallow}
	v.expr, v.err = late.compile(t.expr)
	return v, nil
}

// What compiling takes for each byte of an expression.
const (
	compileSteps = 12
	compileBytes = 80
)
