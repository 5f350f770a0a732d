package pattern

import (
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/trace"
)

// Status is the result of matching a resource with a pattern.
type Status uint8

// Pass: the resource matches. Fail: it does not, at Verdict.Path. Skip: the anchors exclude the resource from the pattern.
// Error: it does not match, but an anchor of the pattern names a key that occurs nowhere in the resource, and the policy
// language treats that as an execution error without a path.
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

// Verdict is the outcome of one match. Path begins and ends with a slash (/spec/x/) and is set only for Fail. Message says
// what did not match, or for Skip which anchors made the pattern not applicable; it is empty for Pass.
type Verdict struct {
	Status  Status
	Path    string
	Message string
}

// Pattern is a compiled validate.pattern. It is immutable (except for a bounded cache of the values of its variables) and
// safe for concurrent use.
type Pattern struct {
	root      *node
	templates []*template.Template
	err       error // the error of a reference $( ) to a place that does not exist
	late      *lateNodes
	path      string // field path in the policy
}

// Compile compiles the raw pattern v, any JSON value with variables and references, which must not change afterwards. path
// is the field path for the diagnostics, such as spec.rules[0].validate.pattern. Compile returns a Pattern even if there
// are errors: it evaluates what can be understood, and an invalid variable or reference makes Match return an error.
// The allowance is charged for what the variables cost to compile; nil for no bound of all together.
func Compile(v any, path string, a *compilecost.Allowance) (*Pattern, diag.List) {
	return compileAt(v, path, "", a)
}

// CompileValue is Compile for a pattern in which variables and references were already replaced: what looks like one is plain text.
func CompileValue(v any, path string) (*Pattern, diag.List) {
	c := &compiler{late: true}
	p := &Pattern{path: path}
	p.root = c.compile(v, position{field: path})
	return p, c.diags
}

// compileAt is Compile for a pattern at the path prefix of the document that is substituted as a whole.
func compileAt(v any, path, prefix string, a *compilecost.Allowance) (*Pattern, diag.List) {
	c := &compiler{allowance: a}
	p := &Pattern{path: path}
	resolved, err := ResolveReferences(v)
	if err != nil {
		c.diags.Errorf(path, "%v", err)
		p.err, resolved = err, v
	}
	p.root = c.compile(resolved, position{field: path, errors: prefix})
	p.templates = c.templates
	if len(c.templates) > 0 {
		p.late = &lateNodes{}
	}
	return p, c.diags
}

// Match evaluates resource, a map[string]any (or an element of a foreach). root and env serve the variables and may be nil
// if there are none. An error is either for a variable or reference that cannot be resolved, with the text `variable
// substitution failed: …`, or wraps budget.ErrExhausted or the context's error.
func (p *Pattern) Match(env *jmespath.Env, root jmespath.Root, resource any) (Verdict, error) {
	values, err := p.resolve(env, root)
	if err != nil {
		return Verdict{}, err
	}
	return p.match(env, values, resource)
}

// Fits reports whether a pattern without variables matches, as Match does, at the cost of one walk: it does not find out why.
func (p *Pattern) Fits(env *jmespath.Env, resource any) (bool, error) {
	return p.fits(env, nil, resource)
}

// match walks at most twice. The first walk only finds out whether the resource matches and records nothing, so that it
// need not allocate; the second finds the reason if it does not.
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

// explain returns the verdict with the reason why a resource does not match.
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
