package lint

import (
	"slices"
	"strconv"
	"strings"
	"time"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/schema"
)

var celFields = &Check{
	Name: "cel-fields",
	Doc: "A CEL expression reads a field that the matched kind does not have: reading it makes the rule fail for every resource, and `has()` is " +
		"always false. Usually a level such as `spec` is missing. Or it compares a number or a boolean with a value of another type, which is an error or always false. The fields of custom resources are known when their definitions are given with " +
		"--crd-paths.",
	Example: `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: example
spec:
  rules:
  - name: host-network
    match:
      any:
      - resources:
          kinds: [Pod]
    validate:
      cel:
        expressions:
        - expression: object.hostNetwork == false
`,
	cause: true,
	policy: func(in *input) {
		for i := range in.policy.Spec.Rules {
			for _, d := range celFieldsOf(&in.policy.Spec.Rules[i], rulePath(i), in.kinds, &compilecost.Allowance{Server: in.kinds.Server()}) {
				in.warn(d.Path, d.Hint, "%s", d.Summary)
			}
		}
	},
}

// CELFields compares the CEL expressions of a ClusterPolicy or Policy with the fields of the kinds that its rules match.
// Admission accepts a policy with these warnings. Unknown kinds give no warnings.
func CELFields(object map[string]any, kinds *schema.Kinds) diag.List {
	out := classicCELFields(object, kinds)
	for v := kinds.Server() + 1; len(out) > 0 && v <= kubeversion.Newest; v++ {
		then := classicCELFields(object, kinds.At(v))
		for i := range out {
			d := &out[i]
			known := slices.ContainsFunc(then, func(t diag.Diagnostic) bool { return t.Path == d.Path && t.Summary == d.Summary })
			if !known && d.Hint == "" {
				d.Hint = sinceHint(v, kinds.Server())
			}
		}
	}
	return out
}

func classicCELFields(object map[string]any, kinds *schema.Kinds) diag.List {
	p, diags := classic.Decode(object)
	if diags.HasErrors() {
		return nil
	}
	var out diag.List
	allowance := &compilecost.Allowance{Server: kinds.Server()} // of all rules and kinds; beyond it there are no warnings
	for i := range p.Spec.Rules {
		out.Add(celFieldsOf(&p.Spec.Rules[i], rulePath(i), kinds, allowance)...)
	}
	return out
}

func celFieldsOf(r *kyvernov1.Rule, path string, kinds *schema.Kinds, a *compilecost.Allowance) diag.List {
	var out diag.List
	if r.Validation == nil || r.Validation.CEL == nil {
		return nil
	}
	seen := map[string]bool{}
	for _, f := range filtersOf(&r.MatchResources, "") {
		for _, kind := range f.ResourceDescription.Kinds {
			if seen[kind] {
				continue
			}
			seen[kind] = true
			out.Add(celFieldsOfKind(r, path, kind, kinds, a)...)
		}
	}
	return out
}

// celFieldsOfKind reports fields that no version of the kind has.
func celFieldsOfKind(r *kyvernov1.Rule, path, kind string, kinds *schema.Kinds, a *compilecost.Allowance) diag.List {
	target, err := match.ParseKind(kind)
	if err != nil || strings.ContainsAny(target.Kind, "*?") {
		return nil
	}
	var common diag.List
	for i, found := range kinds.Find(target.Group, target.Version, target.Kind, target.Subresource) {
		gvk := found.GroupVersion().String() + ", Kind=" + found.Kind
		mistakes := undefinedFields(r, path, gvk, found, a)
		if i == 0 {
			common = mistakes
			continue
		}
		kept := common[:0]
		for _, c := range common {
			for _, m := range mistakes {
				if c.Path == m.Path {
					kept = append(kept, c)
					break
				}
			}
		}
		common = kept
	}
	return common
}

// environmentTime is the time that it takes to declare the fields of a kind.
const environmentTime = 10 * time.Millisecond

func undefinedFields(r *kyvernov1.Rule, path, gvk string, kind schema.Found, a *compilecost.Allowance) diag.List {
	var out diag.List
	in := r.Validation.CEL
	if a.Exceeded() || a.Charge(compilecost.Cost{Time: environmentTime}) != nil {
		return nil
	}
	compiler, err := compiler.NewTypeCheck(env.Declarations{Params: in.ParamKind != nil, Server: a.Version()}, kind.Kind, shape{kind.Type})
	if err != nil {
		return nil
	}
	compiler.Within(a)
	look := func(err error, at string) {
		for _, m := range compiler.FieldMistakes(err) {
			out.Warnf(at, "%s: %s", gvk, m.Text)
			out.Hint("%s", m.Hint)
		}
	}
	expression := func(text, at string) {
		if text != "" {
			_, err := compiler.Compile(text, typecheck.Any)
			look(err, at)
		}
	}
	cel := path + ".validate.cel"
	for i, v := range in.Variables {
		look(compiler.Variable(v.Name, v.Expression), cel+".variables["+strconv.Itoa(i)+"].expression")
	}
	for i, c := range r.CELPreconditions {
		expression(c.Expression, path+".celPreconditions["+strconv.Itoa(i)+"].expression")
	}
	for i, e := range in.Expressions {
		at := cel + ".expressions[" + strconv.Itoa(i) + "]"
		expression(e.Expression, at+".expression")
		expression(e.MessageExpression, at+".messageExpression")
	}
	for i, a := range in.AuditAnnotations {
		expression(a.ValueExpression, cel+".auditAnnotations["+strconv.Itoa(i)+"].valueExpression")
	}
	return out
}

// shape is a type in the form that the CEL compiler needs.
type shape struct{ schema.Type }

func (s shape) Field(name string) (compiler.Shape, bool) {
	t, ok := s.Type.Field(name)
	return shape{t}, ok
}

func (s shape) Element() (compiler.Shape, bool) {
	t, ok := s.Type.Element()
	return shape{t}, ok
}

func (s shape) Scalar() string { return schema.Scalar(s.Type) }
