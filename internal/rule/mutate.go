package rule

import (
	"errors"
	"reflect"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/patch"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/trace"
	"ephor.invalid/ephor/internal/value"
)

// These texts are Kyverno's, verbatim.
const (
	textNoPatches    = "no patches applied"
	textNoElements   = "0 elements processed"
	textPatchError   = "failed to patch resource: "
	textSubstitution = "variable substitution failed: "
	textElements     = "failed to mutate elements: "
)

// patcher changes an object. It does not modify the given object, and returns it if there is nothing to change. The error has Kyverno's
// text.
type patcher func(s *scope.Scope, object any) (any, error)

// The results of a mutation that changed nothing.
var (
	yieldNoPatches  = policy.Yield{Status: policy.StatusSkip, Message: textNoPatches}
	yieldNoElements = policy.Yield{Status: policy.StatusSkip, Message: textNoElements}
)

// onRequest returns the handler that patches the object of the request.
func onRequest(p patcher, nothing policy.Yield) handler {
	if p == nil {
		return nil
	}
	return func(s *scope.Scope) policy.Yield {
		object, err := subject(s)
		if err != nil {
			return failed(textPatchError, err)
		}
		return mutated(s, p, object, nothing)
	}
}

// mutated patches an object and returns the result.
func mutated(s *scope.Scope, p patcher, object map[string]any, nothing policy.Yield) policy.Yield {
	made, err := p(s, object)
	if err != nil {
		return patchFailed(failed("", err))
	}
	out, ok := made.(map[string]any)
	if !ok {
		return patchFailed(failed(textPatchError, errNotAnObject))
	}
	same, err := s.Env.Meter.Equal(object, out)
	if err == nil && !same {
		err = s.Env.Meter.Text(out) // the object will be written as text
	}
	if err != nil {
		return patchFailed(failed(textPatchError, err))
	}
	if same {
		return nothing
	}
	return policy.Yield{Status: policy.StatusPass, Message: mutatedText(object), Object: value.Of(out)}
}

// patchFailed marks an error of the patch itself: the result has no object (policy.Yield).
func patchFailed(y policy.Yield) policy.Yield {
	y.Object = noObject
	return y
}

var noObject = value.Of(map[string]any{})

var errNotAnObject = errors.New("the patch leaves no object behind")

// mutatedText returns the message for a changed object.
func mutatedText(object map[string]any) string {
	kind, _ := object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	text := "mutated " + kind + "/" + name
	if ns, _ := metadata["namespace"].(string); ns != "" {
		text += " in namespace " + ns
	}
	return text
}

// substitute evaluates the variables of a patch.
func substitute(t *template.Template, s *scope.Scope) (any, error) {
	v, err := t.Eval(s.QueryEnv(), s)
	if err != nil && !errors.Is(err, budget.ErrExhausted) {
		return nil, patchError{textSubstitution, err}
	}
	if err != nil {
		return nil, err
	}
	return v, charge(s.Env.Meter, v)
}

// patchSteps is the fixed cost of reading a patch, in addition to the cost of its size.
const patchSteps = 400

// charge charges for reading a patch or data that came from variables. The whole value is read, and traversing some small values takes
// long.
func charge(m *budget.Meter, v any) error {
	if err := m.Step(patchSteps); err != nil {
		return err
	}
	if text, ok := v.(string); ok {
		if err := m.Step(len(text) / 4); err != nil {
			return err
		}
	}
	if err := m.Text(v); err != nil {
		return err
	}
	return m.Walk(v)
}

// patchError adds a prefix to the text of an error. errors.Is finds the wrapped error.
type patchError struct {
	prefix string
	err    error
}

func (e patchError) Error() string { return e.prefix + e.err.Error() }
func (e patchError) Unwrap() error { return e.err }

// joiner patches an object in one of several consecutive merges. It may change the results of earlier merges in place (patch.Merges); in
// is nil for a single merge.
type joiner func(in *patch.Merges, s *scope.Scope, object any) (any, error)

// once returns the patcher of a single merge.
func (j joiner) once(s *scope.Scope, object any) (any, error) { return j(nil, s, object) }

// strategicMerge compiles a patchStrategicMerge. It returns nil if that is malformed. errorPath is the path of its variables in messages.
func (c *compiler) strategicMerge(v any, path, errorPath string) joiner {
	t := c.template(v, path, errorPath)
	if static, ok := t.Static(); ok {
		overlay, diags := patch.CompileOverlay(static, path)
		c.diags.Add(diags...)
		return func(in *patch.Merges, s *scope.Scope, object any) (any, error) {
			return applyOverlay(in, s.QueryEnv(), overlay, object, "")
		}
	}
	return func(in *patch.Merges, s *scope.Scope, object any) (any, error) {
		v, err := substitute(t, s)
		if err != nil {
			return nil, err
		}
		overlay, diags := patch.CompileOverlay(v, "")
		if diags.HasErrors() {
			return nil, patchError{textPatchError, diags.Errors()}
		}
		return applyOverlay(in, s.QueryEnv(), overlay, object, path)
	}
}

// applyOverlay patches the object. An explanation contains the condition that prevents a change; path is the prefix of its path.
func applyOverlay(in *patch.Merges, env *jmespath.Env, o *patch.Overlay, object any, path string) (any, error) {
	out, err := in.Apply(env.Meter, o, object)
	if err != nil {
		return nil, patchError{textPatchError, err}
	}
	if env.Trace != nil {
		if at := o.Unmet(env.Meter, object); at != "" {
			env.Trace.Pattern(trace.Pattern{Path: path + at, Node: path + at, Status: "skip", Message: "the resource does not fulfil this condition"})
		}
	}
	return out, nil
}

// template compiles a part of a patch. It reports malformed variables at path.
func (c *compiler) template(v any, path, errorPath string) *template.Template {
	t := template.Compile(v, template.Options{Path: errorPath, Allowance: c.in.Allowance})
	for _, d := range t.Diags() {
		d.Path = path
		c.diags.Add(d)
	}
	c.reads.Add(t)
	return t
}

// sameMap reports whether a and b are the same map.
func sameMap(a, b map[string]any) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
