package pattern

import (
	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/jmespath"
	"github.com/ephor-dev/ephor/internal/template"
	"github.com/ephor-dev/ephor/internal/trace"
)

// Status is how a pattern evaluates a resource.
type Status uint8

// Pass: the resource fits. Fail: it does not, at Verdict.Path. Skip: the anchors say that the pattern is not for this
// resource. Error: it does not fit, but an anchor of the pattern names a key that the resource has nowhere, and the
// policy language makes that an execution error without a path.
const (
	Pass Status = iota
	Fail
	Skip
	Error
)

func (s Status) String() string {
	switch s {
	case Pass:
		return "pass"
	case Fail:
		return "fail"
	case Skip:
		return "skip"
	}
	return "error"
}

// Verdict is the outcome of one match. Path begins and ends with a slash (/spec/x/) and is set for Fail only. Message
// says what did not match, for Skip which anchors made the pattern not applicable; it is empty for Pass.
type Verdict struct {
	Status  Status
	Path    string
	Message string
}

// Pattern is a compiled validate.pattern. It is immutable (but for a bounded memory of what its variables gave) and
// safe for all goroutines.
type Pattern struct {
	root      *node
	templates []*template.Template
	err       error // a reference $( ) that leads nowhere
	late      *lateNodes
	path      string // where it stands in the policy
}

// Compile prepares the raw pattern v, any JSON value with variables and references, which must not change afterwards.
// path is the field path used in the diagnostics, such as spec.rules[0].validate.pattern. A Pattern is returned even
// when there are errors; it evaluates as far as it can be understood, and a broken variable or reference makes Match
// return an error.
func Compile(v any, path string) (*Pattern, diag.List) { return compileAt(v, path, "") }

// compileAt is Compile for a pattern that stands at prefix of the document that is substituted as a whole.
func compileAt(v any, path, prefix string) (*Pattern, diag.List) {
	c := &compiler{}
	p := &Pattern{path: path}
	resolved, err := ResolveReferences(v)
	if err != nil {
		c.diags.Errorf(path, "%v", err)
		p.err, resolved = err, v
	}
	p.root = c.compile(resolved, place{field: path, errors: prefix})
	p.templates = c.templates
	if len(c.templates) > 0 {
		p.late = &lateNodes{}
	}
	return p, c.diags
}

// Match evaluates resource, a map[string]any (or an element of a foreach). root and env serve the variables and may be nil
// when there are none. The error is either a variable or reference that cannot be resolved, worded `variable
// substitution failed: …` as the user sees it, or wraps budget.ErrExhausted or the context's error.
func (p *Pattern) Match(env *jmespath.Env, root jmespath.Root, resource any) (Verdict, error) {
	values, err := p.resolve(env, root)
	if err != nil {
		return Verdict{}, err
	}
	return p.match(env, values, resource)
}

// match walks twice at most. The first walk only finds out whether the resource fits and remembers nothing, so that it
// need not allocate; the second says why it does not fit.
func (p *Pattern) match(env *jmespath.Env, values []any, resource any) (Verdict, error) {
	if ok, err := p.fits(env, values, resource); ok || err != nil {
		return Verdict{}, err
	}
	return p.explain(env, values, resource)
}

func (p *Pattern) fits(env *jmespath.Env, values []any, resource any) (bool, error) {
	w := walk{values: values, late: p.late, meter: meter(env)}
	out, _ := w.element(p.root, resource, "")
	fits := out == matched && w.err == nil
	if fits && env != nil && env.Trace != nil {
		env.Trace.Pattern(trace.Pattern{Path: p.path, Status: Pass.String()})
	}
	return fits, w.err
}

// explain says why a resource that does not fit does not.
func (p *Pattern) explain(env *jmespath.Env, values []any, resource any) (Verdict, error) {
	w := walk{values: values, late: p.late, meter: meter(env), explain: true, notes: true}
	out, f := w.element(p.root, resource, "/")
	if w.err != nil {
		return Verdict{}, w.err
	}
	v := w.verdict(out, f)
	if f != nil && env != nil && env.Trace != nil {
		field, want := f.decided()
		env.Trace.Pattern(trace.Pattern{
			Path: p.path, Status: v.Status.String(), Node: field, Want: want, At: f.path, Cause: f.cause, Key: f.key, Message: f.text,
			Mapping: f.part != nil && f.part.kind == mapNode && (f.cause == trace.Shape || f.cause == trace.Missing && f.key == ""),
		})
	}
	return v, nil
}

func meter(env *jmespath.Env) *budget.Meter {
	if env == nil {
		return nil
	}
	return env.Meter
}

// Templates returns the templates of the variables, in document order.
func (p *Pattern) Templates() []*template.Template { return p.templates }
