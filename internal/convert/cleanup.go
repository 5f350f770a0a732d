package convert

import (
	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family/cleanup"
)

// cleanupPolicy converts a cleanup policy as a whole.
func cleanupPolicy(object map[string]any, schemas Schemas) ([]Rule, diag.List) {
	p, diags := cleanup.Decode(object)
	if diags.HasErrors() {
		return nil, diags
	}
	c := &converter{
		policy:  &kyvernov1.ClusterPolicy{TypeMeta: p.TypeMeta, ObjectMeta: p.ObjectMeta},
		schemas: schemas, path: "spec", object: member("object"), deleting: true,
	}
	spec := map[string]any{"schedule": p.Spec.Schedule}
	m := &p.Spec.MatchResources
	c.context(p.Spec.Context, "spec.context")
	matched, all := filters(&kyvernov1.MatchResources{Any: m.Any, All: m.All}, "spec.match")
	constraints := map[string]any{"resourceRules": c.resourceRules(matched, all, []string{"*"})}
	conditions := c.selected(matched, all, c.object, nil, constraints)
	if x := p.Spec.ExcludeResources; x != nil {
		conditions = addCondition(conditions, "exclude", not(c.excluded(&kyvernov1.MatchResources{Any: x.Any, All: x.All}, c.object)))
	}
	if p.Spec.Conditions != nil {
		conditions = addCondition(conditions, "conditions", c.conditions(document(p.Spec.Conditions), "spec.conditions"))
	}
	spec["matchConstraints"] = constraints
	if len(conditions) > 0 {
		spec["conditions"] = conditions
	}
	if d := p.Spec.DeletionPropagationPolicy; d != nil {
		spec["deletionPropagationPolicy"] = string(*d)
	}
	out := Rule{Name: p.Name, Reasons: c.reasons, Notes: c.notes}
	if len(c.reasons) == 0 {
		out.Policy = c.assembled("DeletingPolicy", p.Name, p.Kind == cleanup.CleanupPolicy, spec)
	}
	return []Rule{out}, diags
}
