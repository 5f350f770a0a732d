package convert

import (
	"slices"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/exception"
	"ephor.invalid/ephor/internal/wildcard"
)

// Reference is a converted policy that an exception may name.
type Reference struct{ Kind, Name string }

// Exception converts a PolicyException for rules of classic policies. refer returns the policies to which a rule of a policy was converted; the name of a
// policy may have a namespace. The exception is nil if it cannot be converted, and the remarks are the reasons; otherwise they describe how it differs.
func Exception(object map[string]any, schemas Schemas, refer func(policy, rule string) []Reference, rulesOf func(policy string) []string) (made map[string]any, remarks []Remark, diags diag.List) {
	e, diags := exception.Decode(object)
	if diags.HasErrors() {
		return nil, nil, diags
	}
	c := &converter{policy: &kyvernov1.ClusterPolicy{ObjectMeta: e.ObjectMeta}, schemas: schemas, path: "spec", object: member("object"), changed: member("object")}
	if len(e.Spec.PodSecurity) > 0 {
		c.refuse("spec.podSecurity", "an exception for single controls of Pod Security is not converted", "write it as exclude of the rule before you convert that")
	}
	if b := e.Spec.Background; b != nil && !*b {
		c.note("spec.background", "the converted exception also applies in scans: reports no longer have the violations of its objects", "")
	}
	var refs []any
	pods, controllers, cronJobs := true, true, true // which rules about Pods are named in all entries
	for _, x := range e.Spec.Exceptions {
		for _, rule := range rulesOf(x.PolicyName) {
			named := func(name string) bool { return wildcard.MatchAny(x.RuleNames, name) }
			derived, ofCronJobs := autogen.Derived(rule)
			own, generated, scheduled := named(rule), named(derived), named(ofCronJobs)
			if !own && !generated && !scheduled {
				continue
			}
			pods, controllers, cronJobs = pods && own, controllers && generated, cronJobs && scheduled
			for _, r := range refer(x.PolicyName, rule) {
				ref := map[string]any{"kind": r.Kind, "name": r.Name}
				if !slices.ContainsFunc(refs, func(o any) bool { return o.(map[string]any)["name"] == r.Name && o.(map[string]any)["kind"] == r.Kind }) {
					refs = append(refs, ref)
				}
			}
		}
	}
	if len(refs) == 0 {
		c.refuse("spec.exceptions", "the exception names no rule that was converted", "convert its policies with it")
	}
	matched, all := filters(&kyvernov1.MatchResources{Any: e.Spec.Match.Any, All: e.Spec.Match.All}, "spec.match")
	c.deleting = true // there may be no request: scans use exceptions, too
	c.resourceRules(slices.DeleteFunc(slices.Clone(matched), func(f filter) bool { return len(f.ResourceDescription.Kinds) == 0 }), false, nil)
	var parts []expr
	for _, f := range matched {
		f.ResourceDescription.Operations = nil // exceptions have none
		if len(f.ResourceDescription.Kinds) == 0 {
			f.ResourceDescription.Kinds = []string{"*"}
		}
		parts = append(parts, c.filter(f, c.object, true))
	}
	holds := or(parts...)
	if all {
		holds = and(parts...)
	}
	var kinds []expr
	if !pods && (controllers || cronJobs) {
		kinds = append(kinds, comparison("object.kind != 'Pod'"))
	}
	if pods && !controllers && slices.ContainsFunc(refs, func(any) bool { return len(c.matched) > 0 && !c.onlyPods() }) {
		kinds = append(kinds, comparison("!(object.kind in "+list([]string{"DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"})+")"))
	}
	conditions := addCondition(nil, "match", and(append([]expr{holds}, kinds...)...))
	c.deleting = false
	if e.Spec.Conditions != nil {
		conditions = addCondition(conditions, "conditions", c.conditions(document(e.Spec.Conditions), "spec.conditions"))
	}
	if len(c.reasons) > 0 {
		return nil, c.reasons, diags
	}
	metadata := map[string]any{"name": e.Name}
	if e.Namespace != "" {
		metadata["namespace"] = e.Namespace
	}
	if kept := c.annotations(); len(kept) > 0 {
		metadata["annotations"] = kept
	}
	if len(e.Labels) > 0 {
		metadata["labels"] = anyMap(e.Labels)
	}
	spec := map[string]any{"policyRefs": refs}
	if len(conditions) > 0 {
		spec["matchConditions"] = conditions
	}
	return map[string]any{"apiVersion": "policies.kyverno.io/v1", "kind": "PolicyException", "metadata": metadata, "spec": spec}, c.notes, diags
}

// IsException reports whether an object is an exception for classic policies.
func IsException(apiVersion, kind string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	return kind == "PolicyException" && group == kyvernov1.GroupVersion.Group
}
