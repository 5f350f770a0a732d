package vapgen

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ephor-dev/ephor/internal/family/native"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
)

// The reasons why a policy in CEL is not translated; the first two are Kyverno's texts. They follow Native.Skipped.
const (
	reasonNotEnabled = ": not enabled."
	reasonAutogen    = ": pod controllers autogen is enabled."
	reasonMode       = ": the evaluation mode is not Kubernetes."
)

// shared holds the translated parts that all policies in CEL have in common.
type shared struct {
	constraints *admissionregistrationv1.MatchResources
	conditions  []admissionregistrationv1.MatchCondition // of the policy
	exempting   []admissionregistrationv1.MatchCondition // of its exceptions
	variables   []admissionregistrationv1.Variable
	// body rewrites the expressions that may use variables.
	body *rewriter
	// lists are the variables for the lists of exceptions, with the names of the lists.
	lists []listVariable
}

type listVariable struct {
	list     string
	variable admissionregistrationv1.Variable
	wanted   bool
	early    bool // a variable of the policy uses it
}

// share translates constraints, conditions and variables, and includes the exceptions. Call finish after the body was rewritten.
func share(m *admissionregistrationv1.MatchResources, conditions []admissionregistrationv1.MatchCondition, variables []admissionregistrationv1.Variable,
	exceptions []*policy.Exception) *shared {
	out := &shared{constraints: withScopes(m)}
	f := fold(exceptions, conditions)
	out.exempting = f.conditions
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
	return out
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
