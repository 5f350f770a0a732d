package vapgen

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/family/native"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// The reasons why a policy in CEL is not translated; the first two are Kyverno's texts. They follow Native.Skipped.
const (
	reasonNotEnabled = ": not enabled."
	reasonAutogen    = ": pod controllers autogen is enabled."
	reasonMode       = ": the evaluation mode is not Kubernetes."
	reasonVariables  = ": matchConditions use variables, which the API server evaluates after them; write the expression instead."
	reasonActions    = ": other actions in some namespaces are not applicable."
	reasonWorkload   = ": the exception %s covers workloads, whose controllers the API server cannot look up."
	reasonAudit      = ": the exception %s has the action Audit for its objects only."
	reasonUndefined  = ": the conditions of the exception %s may have no value for some objects, which the API server would deny; use has() or optional fields such as object.metadata.?labels.?app.orValue('')."
)

// useVariables reports whether a match condition uses the variables of the policy.
func useVariables(conditions []admissionregistrationv1.MatchCondition) bool {
	return slices.ContainsFunc(conditions, func(c admissionregistrationv1.MatchCondition) bool { return mentions(c.Expression, "variables") })
}

// shared holds the translated parts that all policies in CEL have in common.
type shared struct {
	constraints *admissionregistrationv1.MatchResources
	conditions  []admissionregistrationv1.MatchCondition // of the policy
	exempting   []admissionregistrationv1.MatchCondition // of its exceptions
	variables   []admissionregistrationv1.Variable
	// body rewrites the expressions that may use variables.
	body *rewriter
	// undefined is why the exceptions cannot be translated; empty if they can.
	undefined string
	// lists are the variables for the lists of exceptions, with the names of the lists.
	lists []listVariable
}

type listVariable struct {
	list     string
	variable admissionregistrationv1.Variable
	wanted   bool
	early    bool // a variable of the policy uses it
}

// translateShared translates constraints, conditions and variables, and includes the exceptions. Call finish after the body was rewritten. The error
// means that the kinds could not be looked up.
func translateShared(m *admissionregistrationv1.MatchResources, conditions []admissionregistrationv1.MatchCondition, variables []admissionregistrationv1.Variable,
	in Input, unnamed bool) (*shared, error) {
	out := &shared{constraints: withScopes(m)}
	if out.undefined = inexpressible(in.Exceptions); out.undefined != "" {
		return out, nil
	}
	var present []string
	if len(in.Exceptions) > 0 {
		var err error
		if present, err = presentIn(m, in.Resources, unnamed); err != nil {
			return nil, err
		}
	}
	f := fold(in.Exceptions, conditions, present)
	out.exempting = f.conditions
	if f.undefined != nil {
		out.undefined = fmt.Sprintf(reasonUndefined, f.undefined.Key())
		return out, nil
	}
	taken := map[string]bool{}
	for _, v := range variables {
		taken[v.Name] = true
	}
	inline, named := map[string]string{}, map[string]string{}
	for _, l := range []struct {
		name string
		list *list
	}{{allowedImages, &f.images}, {allowedValues, &f.values}} {
		v := admissionregistrationv1.Variable{Name: unused(taken, l.name, "_"), Expression: l.list.expression()}
		inline[l.name], named[l.name] = "("+v.Expression+")", "variables."+v.Name
		out.lists = append(out.lists, listVariable{list: l.name, variable: v, wanted: !l.list.empty()})
	}
	early := &rewriter{with: named, used: map[string]bool{}}
	for _, v := range variables {
		v.Expression = early.expression(v.Expression)
		out.variables = append(out.variables, v)
	}
	for i := range out.lists {
		out.lists[i].early = early.used[out.lists[i].list]
	}
	atOnce := &rewriter{with: inline, used: map[string]bool{}} // conditions are evaluated before variables
	for _, c := range conditions {
		c.Expression = atOnce.expression(c.Expression)
		out.conditions = append(out.conditions, c)
	}
	out.body = &rewriter{with: named, used: map[string]bool{}}
	return out, nil
}

// presentIn returns the paths that are present in every request that the constraints select. unnamed: objects with generateName have no
// name yet.
func presentIn(m *admissionregistrationv1.MatchResources, resources discovery.Resources, unnamed bool) ([]string, error) {
	out := []string{"request", "request.operation", "request.kind", "request.kind.kind", "request.resource", "request.resource.resource", "request.userInfo"}
	object, namespaced, named := m != nil, m != nil, m != nil
	for i := 0; m != nil && i < len(m.ResourceRules); i++ {
		r := &m.ResourceRules[i]
		for _, op := range r.Operations {
			object = object && (op == admissionregistrationv1.Create || op == admissionregistrationv1.Update)
		}
		for _, group := range r.APIGroups {
			for _, version := range r.APIVersions {
				for _, resource := range r.Resources {
					name, _, sub := strings.Cut(resource, "/")
					// Controllers create Pods with generateName. Reviews such as SubjectAccessReview have no name, and a subresource
					// such as pods/binding may have an object of another kind.
					named = named && !sub && name != "*" && group != "*" && !strings.HasPrefix(group, "auth") && !(unnamed && name == "pods")
					found, err := resources.Find(policy.Target{Group: group, Version: version, Resource: name})
					if err != nil {
						return nil, err
					}
					namespaced = namespaced && !sub && len(found) > 0 && !slices.ContainsFunc(found, func(r discovery.Resource) bool { return !r.Namespaced })
				}
			}
		}
	}
	if object {
		out = append(out, "object", "object.apiVersion", "object.kind", "object.metadata")
		if named {
			out = append(out, "object.metadata.name")
		}
		if namespaced {
			out = append(out, "object.metadata.namespace")
		}
	}
	if namespaced {
		out = append(out, "request.namespace")
	}
	return out, nil
}

// finish adds the variables for the lists that exist or are used.
func (s *shared) finish() {
	var first []admissionregistrationv1.Variable
	for _, l := range s.lists {
		switch {
		case l.early:
			first = append(first, l.variable)
		case l.wanted || s.body.used[l.list]:
			s.variables = append(s.variables, l.variable)
		}
	}
	s.variables = slices.Concat(first, s.variables)
}

// withScopes returns the constraints, with the default scope for rules that have none.
func withScopes(m *admissionregistrationv1.MatchResources) *admissionregistrationv1.MatchResources {
	m = m.DeepCopy()
	if m == nil {
		return nil
	}
	all := admissionregistrationv1.AllScopes
	for _, rules := range [][]admissionregistrationv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			if rules[i].Scope == nil {
				rules[i].Scope = &all
			}
		}
	}
	return m
}

// refused returns the reason why the API server would reject the policy: its libraries and variables differ from Ephor's.
func refused(kind string, p client.Object) string {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		return err.Error()
	}
	tree["apiVersion"], tree["kind"] = native.Group+"/v1", kind
	delete(tree, "status")
	var mistakes []string
	for _, d := range native.Compile(native.Source{Policy: tree}, native.Options{}).Diags {
		mistakes = append(mistakes, d.Path+": "+d.Summary)
	}
	return value.Message(strings.Join(mistakes, "; "))
}
