package lint

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/value"
)

// celSpec holds the common fields of policies of policies.kyverno.io. Each kind has some of them.
type celSpec struct {
	MatchConstraints *admissionregistrationv1.MatchResources   `json:"matchConstraints"`
	MatchConditions  []admissionregistrationv1.MatchCondition  `json:"matchConditions"`
	Conditions       []admissionregistrationv1.MatchCondition  `json:"conditions"`
	Variables        []admissionregistrationv1.Variable        `json:"variables"`
	Validations      []admissionregistrationv1.Validation      `json:"validations"`
	AuditAnnotations []admissionregistrationv1.AuditAnnotation `json:"auditAnnotations"`
	Evaluation       struct {
		Mode string `json:"mode"`
	} `json:"evaluation"`
}

// celPolicyFields compares the expressions of a policy of policies.kyverno.io with the fields of the kinds in its constraints. It
// reports a field that none of these kinds has, and nothing if one of the kinds is unknown.
func celPolicyFields(object map[string]any, namespaced bool, known *schema.Kinds) diag.List {
	var spec celSpec
	if err := json.Unmarshal(value.AppendJSON(nil, object["spec"]), &spec); err != nil || spec.MatchConstraints == nil {
		return nil
	}
	if mode := spec.Evaluation.Mode; mode != "" && mode != "Kubernetes" {
		return nil // the policy is for documents, not for kinds
	}
	var common diag.List
	for i, kind := range constrained(spec.MatchConstraints, known) {
		mistakes, ok := spec.undefined(kind, namespaced, known.Server())
		switch {
		case !ok:
			return nil
		case i == 0:
			common = mistakes
		default:
			common = slices.DeleteFunc(common, func(c diag.Diagnostic) bool {
				return !slices.ContainsFunc(mistakes, func(m diag.Diagnostic) bool { return m.Path == c.Path })
			})
		}
	}
	return common
}

// constrained returns the kinds in the rules of the constraints; none if one of them is unknown.
func constrained(m *admissionregistrationv1.MatchResources, known *schema.Kinds) (out []schema.Found) {
	for _, r := range m.ResourceRules {
		for _, resource := range r.Resources {
			if strings.ContainsAny(resource, "*/") {
				return nil
			}
			found := false
			for _, group := range r.APIGroups {
				for _, version := range r.APIVersions {
					for _, f := range known.Find(group, version, "*", "") {
						if kinds.Plural(f.Kind) == resource {
							out, found = append(out, f), true
						}
					}
				}
			}
			if !found {
				return nil
			}
		}
	}
	return out
}

// undefined returns diagnostics for fields that the kind does not have; ok is false if the variables cannot be typed.
func (s *celSpec) undefined(kind schema.Found, namespaced bool, server kubeversion.Minor) (out diag.List, ok bool) {
	compiler, err := compiler.NewTypeCheck(env.Declarations{Kind: env.Validating, Namespaced: namespaced, Server: server}, kind.Kind, shape{kind.Type})
	if err != nil {
		return nil, false
	}
	gvk := kind.GroupVersion().String() + ", Kind=" + kind.Kind
	look := func(err error, at string) bool {
		mistakes := compiler.FieldMistakes(err)
		for _, m := range mistakes {
			out.Warnf(at, "%s: %s", gvk, m.Text)
			out.Hint("%s", m.Hint)
		}
		return err == nil || len(mistakes) > 0
	}
	expression := func(text, at string) {
		if text != "" && !strings.Contains(text, "object.kind") { // it distinguishes kinds, and may name fields of others
			_, err := compiler.Compile(text, typecheck.Any)
			look(err, at)
		}
	}
	for i, v := range s.Variables {
		at := "spec.variables[" + strconv.Itoa(i) + "].expression"
		if err := compiler.Variable(v.Name, v.Expression); err != nil {
			// Expressions that read the variable cannot be checked either. (A library of another kind of policy is not a mistake.)
			return out, look(err, at)
		}
	}
	for i, c := range s.MatchConditions {
		expression(c.Expression, "spec.matchConditions["+strconv.Itoa(i)+"].expression")
	}
	for i, c := range s.Conditions {
		expression(c.Expression, "spec.conditions["+strconv.Itoa(i)+"].expression")
	}
	for i, v := range s.Validations {
		at := "spec.validations[" + strconv.Itoa(i) + "]"
		expression(v.Expression, at+".expression")
		expression(v.MessageExpression, at+".messageExpression")
	}
	for i, a := range s.AuditAnnotations {
		expression(a.ValueExpression, "spec.auditAnnotations["+strconv.Itoa(i)+"].valueExpression")
	}
	return out, true
}
