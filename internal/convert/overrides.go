package convert

import (
	"maps"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// overrides converts the actions that violations have in some namespaces. The first override that covers a namespace decides; those of the rule
// precede its action, and its action precedes those of the policy.
func (c *converter) overrides(all []kyvernov1.ValidationFailureActionOverride, enforce bool, path string) {
	c.enforced, c.elsewhere = enforce, expr{}
	other := no
	for i := len(all) - 1; i >= 0; i-- {
		o := &all[i]
		covers := yes
		if len(o.Namespaces) > 0 {
			covers = c.anyGlob(member("request.?namespace.orValue('')"), o.Namespaces)
		}
		if o.NamespaceSelector != nil {
			covers = and(covers, comparison("namespaceObject != null"), c.selector(o.NamespaceSelector, member("namespaceObject.metadata"), path))
		}
		if o.Action.IsEnforce() != enforce {
			other = or(covers, other)
		} else {
			other = and(not(covers), other)
		}
	}
	if other != no {
		c.elsewhere = other
	}
}

// overridden limits a policy to the namespaces in which violations have its action, and returns the policy for the others; none for most rules.
func (c *converter) overridden(made map[string]any) []map[string]any {
	if c.elsewhere == (expr{}) {
		return nil
	}
	spec, _ := made["spec"].(map[string]any)
	metadata, _ := made["metadata"].(map[string]any)
	conditions, _ := spec["matchConditions"].([]any)
	other, with, labelled := maps.Clone(made), maps.Clone(spec), maps.Clone(metadata)
	action, suffix := "Deny", "-enforce"
	if c.enforced {
		action, suffix = "Audit", "-audit"
	}
	actions := []any{action}
	if all, _ := spec["validationActions"].([]any); len(all) > 1 {
		actions = append(actions, all[1:]...)
	}
	name, _ := metadata["name"].(string)
	labelled["name"] = name + suffix
	annotations, _ := metadata["annotations"].(map[string]any)
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]any{}
	}
	if c.enforced {
		delete(annotations, existingAnnotation)
	} else if c.tolerant {
		annotations[existingAnnotation] = "true"
	}
	if labelled["annotations"] = annotations; len(annotations) == 0 {
		delete(labelled, "annotations")
	}
	with["validationActions"] = actions
	with["matchConditions"] = append(append([]any{}, conditions...), map[string]any{"name": "namespaces", "expression": c.elsewhere.text})
	spec["matchConditions"] = append(append([]any{}, conditions...), map[string]any{"name": "namespaces", "expression": not(c.elsewhere).text})
	other["metadata"], other["spec"] = labelled, with
	return []map[string]any{other}
}
