package classic

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
)

// action returns the plan for the effective action of a rule. It takes the first of these that applies: the rule's overrides, the
// rule's action, the policy's overrides, the policy's action.
func action(spec *kyvernov1.Spec, r *kyvernov1.Rule, path string) (policy.ActionPlan, diag.List) {
	var plan policy.ActionPlan
	var diags diag.List
	if v := r.Validation; v != nil {
		plan.Overrides = overrides(v.FailureActionOverrides, path+".validate.failureActionOverrides", &diags)
	}
	if own, ok := ownAction(r); ok {
		plan.Default = own
		return plan, diags
	}
	plan.Overrides = append(plan.Overrides, overrides(spec.ValidationFailureActionOverrides, "spec.validationFailureActionOverrides", &diags)...)
	plan.Default = of(spec.ValidationFailureAction.IsEnforce())
	return plan, diags
}

// ownAction returns the action that the rule itself sets.
func ownAction(r *kyvernov1.Rule) (policy.Action, bool) {
	if v := r.Validation; v != nil && v.FailureAction != nil {
		return of(v.FailureAction.IsEnforce()), true
	}
	for _, v := range r.VerifyImages {
		if v.FailureAction != nil && v.FailureAction.IsEnforce() {
			return policy.Deny, true
		}
	}
	if len(r.VerifyImages) > 0 && r.VerifyImages[0].FailureAction != nil {
		return policy.Audit, true
	}
	return policy.Audit, false
}

func of(enforce bool) policy.Action {
	if enforce {
		return policy.Deny
	}
	return policy.Audit
}

func overrides(in []kyvernov1.ValidationFailureActionOverride, path string, diags *diag.List) []policy.ActionOverride {
	var out []policy.ActionOverride
	for i, o := range in {
		c := policy.ActionOverride{Action: of(o.Action.IsEnforce()), Namespaces: o.Namespaces}
		if o.NamespaceSelector != nil {
			selector, err := metav1.LabelSelectorAsSelector(o.NamespaceSelector)
			if err != nil {
				diags.Errorf(path+"["+strconv.Itoa(i)+"].namespaceSelector", "%v", err)
				diags.Hint("a label selector has matchLabels, and matchExpressions with the operators In, NotIn, Exists and DoesNotExist")
				continue
			}
			c.Selector = func(l map[string]string) bool { return selector.Matches(labels.Set(l)) }
		}
		out = append(out, c)
	}
	return out
}
