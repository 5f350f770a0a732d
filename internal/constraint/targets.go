package constraint

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
)

// maxTargets bounds the combinations of groups, versions and resources in one list of rules. Real lists have a few dozen.
const maxTargets = 4096

// targetsOf returns the targets of rules.
func targetsOf(diags *diag.List, rules []admissionregistrationv1.NamedRuleWithOperations, path string, o Options, exact bool) []policy.Target {
	var out []policy.Target
	for i := range rules {
		r := &rules[i]
		at := fmt.Sprintf("%s[%d]", path, i)
		base := policy.Target{Operations: operationsOf(r.Operations), ExactVersion: exact}
		if o.AnyOperation {
			base.Operations = everyOperation
		}
		if r.Scope != nil {
			base.Scope = policy.ResourceScope(*r.Scope)
			if !slices.Contains([]policy.ResourceScope{policy.AnyScope, policy.ClusterScope, policy.NamespacedScope}, base.Scope) {
				diags.Errorf(at+".scope", "unknown scope %q; a scope is *, Cluster or Namespaced", base.Scope)
			}
		}
		if len(r.ResourceNames) > 0 {
			base.Names, base.GenerateNames = r.ResourceNames, o.GenerateNames
		}
		groups, versions, resources := distinct(r.APIGroups), distinct(r.APIVersions), distinct(r.Resources)
		// The size of the object bounds each factor, so the product does not overflow.
		if n := len(out) + len(groups)*len(versions)*len(resources); n > maxTargets {
			diags.Errorf(at, "the rules name %d combinations of groups, versions and resources; at most %d are possible", n, maxTargets)
			diags.Hint("write * for groups or versions")
			return out
		}
		for _, group := range groups {
			for _, version := range versions {
				for _, resource := range resources {
					t := base
					t.Group, t.Version = group, version
					t.Resource, t.Subresource, _ = strings.Cut(resource, "/")
					if t.Resource != "" { // no resource has that name
						out = append(out, t)
					}
				}
			}
		}
	}
	return out
}

// known are the operations that requests can have.
var known = []admissionregistrationv1.OperationType{
	admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete, admissionregistrationv1.Connect,
	admissionregistrationv1.OperationAll,
}

// checkOperations reports operations that no request has. They are errors in rules that become rules of a webhook, because the API server
// would reject the webhook.
func checkOperations(diags *diag.List, rules []admissionregistrationv1.NamedRuleWithOperations, path string, wrong bool) {
	for i := range rules {
		for j, o := range rules[i].Operations {
			if slices.Contains(known, o) {
				continue
			}
			report := diags.Warnf
			if wrong {
				report = diags.Errorf
			}
			report(fmt.Sprintf("%s[%d].operations[%d]", path, i, j), "no request has the operation %s", o)
			if upper := admissionregistrationv1.OperationType(strings.ToUpper(string(o))); slices.Contains(known, upper) {
				diags.Hint("did you mean %s?", upper)
			} else {
				diags.Hint("operations are CREATE, UPDATE, DELETE, CONNECT and *")
			}
		}
	}
}

// distinct returns the texts without duplicates; only `*` if it is among them.
func distinct(texts []string) []string {
	if slices.Contains(texts, "*") {
		return []string{"*"}
	}
	out := slices.Clone(texts)
	slices.Sort(out)
	return slices.Compact(out)
}

// everyOperation is what `*` stands for.
var everyOperation = []policy.Operation{policy.Connect, policy.Create, policy.Delete, policy.Update}

// operationsOf returns the operations of a rule. The API server rejects rules without operations; in files such rules
// select all operations.
func operationsOf(given []admissionregistrationv1.OperationType) []policy.Operation {
	if len(given) == 0 || slices.Contains(given, admissionregistrationv1.OperationAll) {
		return everyOperation
	}
	out := make([]policy.Operation, len(given))
	for i, o := range given {
		out[i] = policy.Operation(o)
	}
	return out
}
