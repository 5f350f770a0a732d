package exception

import (
	"slices"
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	kyvernov2beta1 "ephor.invalid/ephor/api/kyverno/v2beta1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/wildcard"
	"ephor.invalid/ephor/internal/workload"
)

// These texts are copied verbatim from Kyverno.
const (
	textPolicyName = "An exception requires a policy name"
	textUserInfo   = "Usage of user info is forbidden"
)

// operators are the operators that the CRD allows in conditions.
var operators = []string{
	"Equals", "NotEquals", "AnyIn", "AllIn", "AnyNotIn", "AllNotIn",
	"GreaterThanOrEquals", "GreaterThan", "LessThanOrEquals", "LessThan",
	"DurationGreaterThanOrEquals", "DurationGreaterThan", "DurationLessThanOrEquals", "DurationLessThan",
}

// Check returns all mistakes of the author in an exception, except those in its match block, its conditions and its podSecurity list, which
// Compile reports. Warnings do not invalidate an exception.
func Check(e *kyvernov2.PolicyException) diag.List {
	var l diag.List
	spec := &e.Spec
	if e.Name == "" {
		l.Required("metadata.name", "an exception needs a name")
		l.Hint("add metadata.name, such as legacy-web")
	}
	if len(spec.Exceptions) == 0 {
		l.Required("spec.exceptions", "an exception names the rules that it is for")
		l.Hint("add spec.exceptions with a policyName and ruleNames; `ephor create exception` writes one")
	}
	for i, x := range spec.Exceptions {
		path := "spec.exceptions[" + strconv.Itoa(i) + "]"
		switch {
		case x.PolicyName == "":
			l.Errorf(path+".policyName", "%s", textPolicyName)
			l.Hint("add the name of the policy, without its namespace")
		case wildcard.Has(x.PolicyName):
			l.Warnf(path+".policyName", "the exception is for no policy: %q is taken literally", x.PolicyName)
			l.Hint("only rule names may have wildcards; add one entry for each policy")
		}
		if len(x.RuleNames) == 0 {
			l.Required(path+".ruleNames", "name the rules of "+x.PolicyName+" that the exception is for")
			l.Hint("`*` stands for all rules; those generated for pod controllers have names of their own, `autogen-*`")
		}
	}
	background := spec.Background == nil || *spec.Background
	if len(spec.Match.Any)+len(spec.Match.All) == 0 {
		l.Warnf("spec.match", "the exception is for no resource: match is empty")
		l.Hint("add a filter to match.any")
	}
	for _, block := range []struct {
		path    string
		filters kyvernov1.ResourceFilters
	}{{"spec.match.any", spec.Match.Any}, {"spec.match.all", spec.Match.All}} {
		for i, f := range block.filters {
			if background && len(f.Roles)+len(f.ClusterRoles)+len(f.Subjects) > 0 {
				l.Errorf(block.path+"["+strconv.Itoa(i)+"]", "%s", textUserInfo)
				l.Hint("a background scan does not know who made a request; set spec.background to false")
			}
		}
	}
	if e.Annotations[family.ExceptionCovers] == family.CoversWorkload {
		checkWorkload(&l, spec)
	}
	if c := spec.Conditions; c != nil {
		checkOperators(&l, c.AnyConditions, "spec.conditions.any")
		checkOperators(&l, c.AllConditions, "spec.conditions.all")
	}
	return l
}

// checkWorkload reports what an exception that covers workloads cannot say: it is evaluated for a controller, for which there are neither the
// variables of the rule nor a request.
func checkWorkload(l *diag.List, spec *kyvernov2beta1.PolicyExceptionSpec) {
	const path = "metadata.annotations[" + family.ExceptionCovers + "]"
	if c := spec.Conditions; c != nil && len(c.AnyConditions)+len(c.AllConditions) > 0 {
		l.Errorf("spec.conditions", "an exception that covers workloads has no conditions")
		l.Hint("select the controllers in match, or remove the annotation %s", family.ExceptionCovers)
	}
	named := false
	for _, f := range slices.Concat(spec.Match.Any, spec.Match.All) {
		if len(f.Roles)+len(f.ClusterRoles)+len(f.Subjects) > 0 {
			l.Errorf(path, "an exception that covers workloads cannot select by the requester: a controller makes the other objects")
			l.Hint("remove subjects, roles and clusterRoles")
		}
		for _, kind := range f.ResourceDescription.Kinds {
			named = named || workload.IsController(kind[strings.LastIndexByte(kind, '/')+1:])
		}
	}
	if !named {
		l.Warnf(path, "the exception names no controller whose objects it could cover")
		l.Hint("name one of its kinds in match, such as Deployment")
	}
}

func checkOperators(l *diag.List, in []kyvernov2beta1.Condition, path string) {
	for i, c := range in {
		switch op := string(c.Operator); op {
		case "In", "NotIn", "Equal", "NotEqual": // old names, which policies may use; no condition accepts any other name
			l.Unsupported(path+"["+strconv.Itoa(i)+"].operator", op, diag.Listed(operators))
		}
	}
}
