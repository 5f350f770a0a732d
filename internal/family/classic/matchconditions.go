package classic

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/celenv"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/policy"
)

// maxMatchConditions is the largest number of match conditions that the API server accepts for one webhook.
const maxMatchConditions = 64

// namespaceObject is a variable of admission policies in the API server. In the conditions of a webhook, the API server accepts the name
// but gives the variable no value.
var namespaceObject = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bnamespaceObject\b`) })

// guard adds the conditions of the policy's webhook to its rules: if a condition is false, no rule has a result. At admission the API
// server has already evaluated the conditions.
func guard(out *policy.Program, conditions []admissionregistrationv1.MatchCondition, server kubeversion.Minor) {
	if len(conditions) == 0 {
		return
	}
	if n := len(conditions); n > maxMatchConditions { // the API server would reject the whole webhook configuration
		out.Diags.Errorf("spec.webhookConfiguration.matchConditions", "Too many: %d: must have at most %d items", n, maxMatchConditions)
		out.Diags.Hint("join expressions with &&")
	}
	compiler := celenv.NewCompiler(celenv.Declarations{Server: server})
	var compiled celrule.Conditions
	var mistake error
	for i, c := range conditions {
		path := "spec.webhookConfiguration.matchConditions[" + strconv.Itoa(i) + "]"
		switch problems := validation.IsQualifiedName(c.Name); {
		case c.Name == "":
			out.Diags.Required(path+".name", "a match condition needs a name")
			out.Diags.Hint("add a name, such as not-of-the-system")
		case len(problems) > 0: // the API server would reject the whole webhook configuration
			out.Diags.Invalid(path+".name", c.Name, strings.Join(problems, "; "))
			out.Diags.Hint("write a name of letters, digits, and - _ . between them")
		case slices.ContainsFunc(conditions[:i], func(o admissionregistrationv1.MatchCondition) bool { return o.Name == c.Name }):
			out.Diags.Errorf(path+".name", "Duplicate value: %q", c.Name)
			out.Diags.Hint("give each match condition a name of its own")
		}
		x, err := compiler.Compile(c.Expression, celenv.Bool)
		if err != nil {
			mistake = errors.New("match conditions compilation errors: " + celenv.Summary(err))
			out.Diags.Errorf(path+".expression", "%v", mistake)
			continue
		}
		if namespaceObject().MatchString(c.Expression) {
			out.Diags.Warnf(path+".expression", "namespaceObject has no value in the match conditions of a webhook: the API server cannot evaluate %q, and failurePolicy decides", c.Name)
			out.Diags.Hint("use a namespaceSelector in match")
		}
		compiled = append(compiled, x)
	}
	hold := func(ctx context.Context, r *policy.Request) (bool, error) {
		if mistake != nil {
			return false, mistake
		}
		in, err := celrule.RequestInput(r)
		if err != nil {
			return false, err
		}
		return compiled.Hold(ctx, budget.Of(ctx), compiler.Variables(), in)
	}
	for _, r := range out.Rules {
		match := r.Match
		r.MatchSteps = max(r.MatchSteps, 1) // the conditions count as a step
		r.Match = func(ctx context.Context, req *policy.Request) (bool, error) {
			ok, err := match(ctx, req)
			if !ok || err != nil || req.Origin == policy.FromAdmission {
				return ok, err
			}
			return hold(ctx, req)
		}
	}
}
