package template

import (
	"errors"
	"slices"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/value"
)

// Options describe the place of the compiled value.
type Options struct {
	// Path is the prefix of the paths in error messages, such as /validate/pattern; empty for a condition's key.
	Path string
	// At is the place of the value relative to the root of `@`, as keys (string) and indexes (int). It is empty if the value is
	// that root itself.
	At []any
	// Allowance is charged for what the expressions cost to compile.
	Allowance *compilecost.Allowance
}

// Template is a compiled JSON value with variables. It is immutable and safe for concurrent use.
type Template struct {
	root        node
	static      any
	expressions []*jmespath.Expr
	roots       []string
	nested      bool
	diags       diag.List
}

// Compile compiles v, any JSON value, which must not change afterwards. It never fails: a variable with a malformed expression
// makes Eval fail when it is reached, and is listed by Diags.
func Compile(v any, o Options) *Template {
	at := position{path: o.Path}
	for _, step := range o.At {
		switch s := step.(type) {
		case string:
			at.query += "." + identifier(bare(s))
		case int:
			at.query += at.index(s).query[len(at.query):]
		}
	}
	c := &compiler{t: &Template{static: v}, seen: map[string]bool{}, allowance: o.Allowance}
	c.t.root = c.value(v, at)
	slices.Sort(c.t.roots)
	return c.t
}

// Static returns the value itself if it has no variables and no escapes.
func (t *Template) Static() (any, bool) {
	if t.root == nil {
		return t.static, true
	}
	return nil, false
}

// Source returns the value that was given to Compile.
func (t *Template) Source() any { return t.static }

// Eval substitutes the variables. The result shares parts without variables with the compiled value, and values of variables
// with their source data. The error is a *ResolveError (its text is that of the policy language), or wraps budget.ErrExhausted
// or the context's error.
func (t *Template) Eval(env *jmespath.Env, root jmespath.Root) (any, error) {
	if t.root == nil {
		return t.static, nil
	}
	return t.root.eval(run{env, root})
}

// NotStringError is the error for a template that must give text but gives another value.
type NotStringError struct{ Value any }

func (e *NotStringError) Error() string { return "expected a string, found " + value.TypeName(e.Value) }

// EvalString is Eval for a template that must give text; other values are a *NotStringError.
func (t *Template) EvalString(env *jmespath.Env, root jmespath.Root) (string, error) {
	v, err := t.Eval(env, root)
	if err != nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", &NotStringError{v}
	}
	return s, nil
}

// Roots lists the top-level names that the variables may read, sorted. It contains "*" if they may read everything, or if
// nested variables hide what is read. It does not cover variables that the author wrote into values.
func (t *Template) Roots() []string { return t.roots }

// Expressions returns the compiled expressions in document order. Nested variables have their outer expression with a stand-in
// for the inner ones, if it compiles in that form.
func (t *Template) Expressions() []*jmespath.Expr { return t.expressions }

// Nested reports whether variables contain other variables, so that Expressions may not cover all reads.
func (t *Template) Nested() bool { return t.nested }

// Diags lists the variables that cannot be evaluated, at their paths.
func (t *Template) Diags() diag.List { return t.diags }

// Err is Diags as an error; nil when all variables compile.
func (t *Template) Err() error { return t.diags.Err() }

// run is the state of one evaluation.
type run struct {
	env  *jmespath.Env
	root jmespath.Root
}

func (r run) meter() *budget.Meter {
	if r.env == nil {
		return nil
	}
	return r.env.Meter
}

// charge charges what is about to be written into text.
func (r run) charge(v any) error {
	switch v.(type) {
	case map[string]any, []any:
		return r.meter().Text(v)
	}
	return nil // the text is charged as a part of the whole
}

var errTooDeep = errors.New("the value is nested too deeply")
