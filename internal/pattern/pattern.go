package pattern

import (
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/jmespath"
)

// Status is how a pattern judges a resource.
type Status uint8

// Pass: the resource fits. Fail: it does not, at Verdict.Path. Skip: the anchors say that the pattern is not for this
// resource. Error: it does not fit, but an anchor of the pattern names a key that the resource has nowhere, and the
// language reference makes that an execution error without a path.
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

// Pattern is a compiled validate.pattern (or one alternative of anyPattern). It is immutable and safe for all
// goroutines.
type Pattern struct {
	root *node
}

// Compile prepares the raw pattern v, any JSON value with variables and references. path is the field path used in the
// diagnostics, such as spec.rules[0].validate.pattern. A Pattern is returned even when there are errors.
func Compile(v any, path string) (*Pattern, diag.List) {
	c := &compiler{}
	p := &Pattern{root: c.compile(v, path, "", "", 0)}
	return p, c.diags
}

// Match judges resource. The error is a variable that cannot be resolved, or an exhausted budget.
func (p *Pattern) Match(env *jmespath.Env, root jmespath.Root, resource any) (Verdict, error) {
	w := walk{}
	if env != nil {
		w.meter = env.Meter
	}
	out, _ := w.element(p.root, resource, "")
	if w.err != nil {
		return Verdict{}, w.err
	}
	if out == matched {
		return Verdict{}, nil
	}
	// The first walk only finds out whether the resource fits and remembers nothing, so that it need not allocate.
	// The second says why it does not.
	w = walk{meter: w.meter, explain: true}
	out, f := w.element(p.root, resource, "/")
	if w.err != nil {
		return Verdict{}, w.err
	}
	return w.verdict(out, f), nil
}
