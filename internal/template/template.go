package template

import (
	"errors"
	"slices"

	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/jmespath"
	"github.com/ephor-dev/ephor/internal/value"
)

// Options say where the compiled value stands.
type Options struct {
	// Path is the prefix of the paths in error messages, such as /validate/pattern; empty for a condition's key.
	Path string
	// At is the place of the value below the root that `@` counts from, as keys (string) and indexes (int). It is
	// empty when the value is that root itself.
	At []any
}

// Template is a JSON value with variables, compiled. It is immutable and safe for all goroutines.
type Template struct {
	root        node
	static      any
	expressions []*jmespath.Expr
	roots       []string
	nested      bool
	diags       diag.List
}

// Compile prepares v, any JSON value, which must not change afterwards. It never fails: a variable whose expression is
// malformed makes Eval fail when it is reached, and is listed by Diags.
func Compile(v any, o Options) *Template {
	at := place{path: o.Path}
	for _, step := range o.At {
		switch s := step.(type) {
		case string:
			at.query += "." + identifier(bare(s))
		case int:
			at.query += at.index(s).query[len(at.query):]
		}
	}
	c := &compiler{t: &Template{static: v}, seen: map[string]bool{}}
	c.t.root = c.value(v, at)
	slices.Sort(c.t.roots)
	return c.t
}

// Static returns the value itself when it has no variables and no escapes.
func (t *Template) Static() (any, bool) {
	if t.root == nil {
		return t.static, true
	}
	return nil, false
}

// Source is the value as it was given to Compile.
func (t *Template) Source() any { return t.static }

// Eval substitutes the variables. The result shares what has no variables with the compiled value, and values of
// variables with the data that they came from. The error is a *ResolveError (its text is that of the policy language),
// or wraps budget.ErrExhausted or the context's error.
func (t *Template) Eval(env *jmespath.Env, root jmespath.Root) (any, error) {
	if t.root == nil {
		return t.static, nil
	}
	return t.root.eval(run{env, root})
}

// NotStringError says that a template which must give text gives something else.
type NotStringError struct{ Value any }

func (e *NotStringError) Error() string { return "expected a string, found " + value.TypeName(e.Value) }

// EvalString is Eval for a template that must give text; a *NotStringError says that it gives something else.
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

// Roots lists the top-level names that the variables may read, sorted; it holds "*" when they may read everything, or
// when nested variables hide what is read. Variables that the author keeps in values are not foreseen.
func (t *Template) Roots() []string { return t.roots }

// Expressions are the compiled expressions in document order. Of nested variables the outer expression is there with
// a stand-in for the inner ones when it can be compiled so.
func (t *Template) Expressions() []*jmespath.Expr { return t.expressions }

// Nested reports whether variables stand inside of variables, so that Expressions covers only the read ones.
func (t *Template) Nested() bool { return t.nested }

// Diags lists the variables that cannot be evaluated, at their paths.
func (t *Template) Diags() diag.List { return t.diags }

// Err is Diags as an error; nil when all variables compile.
func (t *Template) Err() error { return t.diags.Err() }

// run is what one evaluation carries through the tree.
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

// charge counts what is about to be written into text.
func (r run) charge(v any) error {
	switch v.(type) {
	case map[string]any, []any:
		return r.meter().Text(v)
	}
	return nil // text is counted as a part of the whole
}

var errTooDeep = errors.New("the value is nested too deeply")
