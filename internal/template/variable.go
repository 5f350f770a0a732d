package template

import (
	"errors"
	"strings"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/jmespath"
)

// variable is one `{{ … }}` with its compiled expression.
type variable struct {
	source  string // the expression, as quoted in error messages
	path    string // the place of the variable, as quoted in error messages
	shallow bool
	data    bool // the expression contains data, so its value is data
	expr    *jmespath.Expr
	roots   []string       // the names that expr reads
	target  *jmespath.Expr // for `@`: the same path in `target`, which takes precedence if target exists
	err     error          // why the expression does not compile
}

// errEmptyQuery is the error of `{{ }}`.
var errEmptyQuery = errors.New("invalid query (nil)")

func newVariable(t token, at position, a *compilecost.Allowance) variable {
	v := variable{source: t.expr, path: at.path, shallow: t.shallow}
	if v.source == "@" {
		v.source = "request.object" + at.query
		v.target, _ = jmespath.Compile("target" + at.query)
	}
	v.expr, v.err = compile(a, v.source)
	v.roots = rootsOf(v.expr)
	return v
}

func rootsOf(x *jmespath.Expr) []string {
	if x == nil {
		return nil
	}
	return x.Roots()
}

func compile(a *compilecost.Allowance, source string) (*jmespath.Expr, error) {
	return compileQuoting(a, source, jmespath.Quoting{})
}

func compileQuoting(a *compilecost.Allowance, source string, q jmespath.Quoting) (*jmespath.Expr, error) {
	if source == "" {
		return nil, errEmptyQuery
	}
	e, err := jmespath.CompileWithin(a, source, q)
	if err != nil {
		return nil, &QueryError{Query: source, Err: err}
	}
	return e, nil
}

// resolve evaluates the variable.
func (v *variable) resolve(env *jmespath.Env, root jmespath.Root) (any, error) {
	if v.err != nil {
		return nil, &ResolveError{Variable: v.source, Path: v.path, Err: v.err}
	}
	expr, source := v.expr, v.source
	if v.target != nil && root != nil {
		if _, ok, err := root.Field("target"); ok || err != nil {
			expr, source = v.target, "target"+strings.TrimPrefix(v.source, "request.object")
		}
	}
	got, err := expr.Search(env, root)
	if err != nil {
		return nil, &ResolveError{Variable: source, Path: v.path, Err: err, query: !outsideQuery(err, expr, root)}
	}
	return got, nil
}

// outsideQuery reports whether err has a cause outside the expression: a name could not be loaded, or the evaluation must end.
// Reading the root again is cheap, since it loads every name at most once.
func outsideQuery(err error, expr *jmespath.Expr, root jmespath.Root) bool {
	if errors.Is(err, budget.ErrExhausted) {
		return true
	}
	if root == nil {
		return false
	}
	for _, name := range expr.Roots() {
		if name == "*" {
			if _, load := root.Value(); load != nil && errors.Is(err, load) {
				return true
			}
			continue
		}
		if _, _, load := root.Field(name); load != nil && errors.Is(err, load) {
			return true
		}
	}
	return false
}

// ResolveError is the error for a variable without a value. It unwraps to the cause, so that errors.As finds a
// *jmespath.UnknownKeyError and errors.Is finds budget.ErrExhausted or the context's error.
type ResolveError struct {
	Variable string // the expression without braces
	Path     string // place of the variable in the substituted document; empty for a plain string
	Err      error
	query    bool
}

func (e *ResolveError) Error() string {
	s := "failed to resolve " + e.Variable + " at path " + e.Path + ": "
	if e.query {
		s += "JMESPath query failed: "
	}
	return s + e.Err.Error()
}

// Unwrap returns the cause.
func (e *ResolveError) Unwrap() error { return e.Err }

// QueryError is the error for an expression that does not compile.
type QueryError struct {
	Query string
	Err   error
}

func (e *QueryError) Error() string { return "incorrect query " + e.Query + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *QueryError) Unwrap() error { return e.Err }
