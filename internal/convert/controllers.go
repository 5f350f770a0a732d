package convert

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/rule"
)

// covered returns the resources of the Pod controllers that the classic rule covers.
func (c *converter) covered() (out []schema.GroupVersionResource) {
	generated, err := autogen.Expand(c.policy.Spec.Rules, c.policy.Annotations)
	if err != nil {
		c.refuse(c.path, err.Error(), "")
		return nil
	}
	for i := range generated {
		if generated[i].Parent != c.index {
			continue
		}
		m := generated[i].Rule.MatchResources
		for _, f := range append(append(kyvernov1.ResourceFilters{{ResourceDescription: m.ResourceDescription}}, m.Any...), m.All...) {
			for _, kind := range f.ResourceDescription.Kinds {
				t, err := match.ParseKind(kind)
				if err != nil || t.Subresource != "" {
					continue
				}
				for _, gvr := range c.schemas.Resources(t) {
					if !slices.Contains(out, gvr) {
						out = append(out, gvr)
					}
				}
			}
		}
	}
	return out
}

// autogen makes the policy cover the Pod controllers that the classic rule covers.
func (c *converter) autogen(r *kyvernov1.Rule, spec, constraints map[string]any, operations []string) {
	covered := c.covered()
	c.controllers = len(covered) > 0
	rules, _ := constraints["resourceRules"].([]any)
	pods := len(rules) == 1
	if pods {
		rule := rules[0].(map[string]any)
		resources, _ := rule["resources"].([]any)
		pods = len(resources) == 1 && resources[0] == "pods"
	}
	var names []string
	for _, gvr := range covered {
		names = append(names, gvr.Resource)
	}
	subresources := c.podSubresources(r, rules)
	switch {
	case r.Generation != nil: // neither language derives generate rules for Pod controllers
	case !pods && len(covered) > 0:
		c.refuse(c.path+".match", "the rule also applies to Pod controllers; a CEL policy does so only if it matches only Pods", "")
	case pods && r.Mutation != nil && len(covered) > 0:
		constraints["resourceRules"] = append(append(rules, subresources...), rulesFor(covered, operations)...)
		c.inTemplates(names)
	case subresources != nil && len(covered) == 0:
		constraints["resourceRules"] = append(rules, subresources...)
	case pods:
		c.apart = subresources // a policy about more than Pods is not about their controllers
		if !slices.Equal(slices.Sorted(slices.Values(names)), podControllers) {
			spec["autogen"] = map[string]any{"podControllers": map[string]any{"controllers": anyList(names)}}
		}
	}
}

// podSubresources returns the rules for the subresources that the kind Pod also covers. Policies in CEL that validate or verify images cover them
// without such rules, but add digests only to the images of resources that they list (see debugging), and report no violation that the Pod had before.
func (c *converter) podSubresources(r *kyvernov1.Rule, rules []any) []any {
	if !aboutPods(rules, "UPDATE") {
		return nil
	}
	switch {
	case r.Mutation != nil, r.Validation != nil && (!isOn(r.Validation.AllowExistingViolations) || !aboutPods(rules, "CREATE") || c.spares(r, "CREATE")):
		return []any{map[string]any{
			"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"UPDATE"}, "resources": []any{"pods/ephemeralcontainers", "pods/resize"},
		}}
	case slices.ContainsFunc(r.VerifyImages, func(e kyvernov1.ImageVerification) bool { return isOn(rule.ModernImages(&e).MutateDigest) }):
		c.debugged = true
	}
	return nil
}

// aboutPods reports whether a rule is about this operation on Pods.
func aboutPods(rules []any, operation string) bool {
	return slices.ContainsFunc(rules, func(r any) bool {
		rule, _ := r.(map[string]any)
		resources, _ := rule["resources"].([]any)
		groups, _ := rule["apiGroups"].([]any)
		operations, _ := rule["operations"].([]any)
		return slices.Contains(resources, any("pods")) && slices.Contains(groups, any("")) && slices.Contains(operations, any(operation))
	})
}

// subresources adds the policy for the subresources of Pods that a policy about their controllers cannot list.
func (c *converter) subresources(r *kyvernov1.Rule, spec map[string]any) {
	if c.apart == nil {
		return
	}
	of := maps.Clone(spec)
	delete(of, "autogen")
	constraints, _ := spec["matchConstraints"].(map[string]any)
	constraints = maps.Clone(constraints)
	constraints["resourceRules"] = c.apart
	of["matchConstraints"] = constraints
	made := c.assembled("ValidatingPolicy", c.name(r)+"-subresources", c.policy.Kind == "Policy", of)
	c.more = append(append(c.more, made), c.overridden(made)...)
}

// rulesFor returns rules for resources, one for each group and version.
func rulesFor(all []schema.GroupVersionResource, operations []string) (out []any) {
	var order []schema.GroupVersion
	of := map[schema.GroupVersion][]string{}
	for _, gvr := range all {
		if of[gvr.GroupVersion()] == nil {
			order = append(order, gvr.GroupVersion())
		}
		of[gvr.GroupVersion()] = append(of[gvr.GroupVersion()], gvr.Resource)
	}
	for _, gv := range order {
		out = append(out, map[string]any{
			"apiGroups": []any{gv.Group}, "apiVersions": []any{gv.Version}, "operations": anyList(operations), "resources": anyList(of[gv]),
		})
	}
	return out
}

// inTemplates makes the policy also change the Pod templates of Pod controllers. One policy handles all of them; the Pod and its path are
// variables. (Autogen policies of a MutatingPolicy for Pods change no metadata, and do not support JSON patches.)
func (c *converter) inTemplates(resources []string) {
	c.object, c.changed = member("variables.pod"), member("variables.pod")
	pod, path := "object.kind == 'Pod' ? object : object.spec.template", "object.kind == 'Pod' ? '' : '/spec/template'"
	if slices.Contains(resources, "cronjobs") {
		pod = "object.kind == 'CronJob' ? object.spec.jobTemplate.spec.template : " + pod
		path = "object.kind == 'CronJob' ? '/spec/jobTemplate/spec/template' : " + path
	}
	c.variables = append(c.variables, map[string]any{"name": "pod", "expression": pod}, map[string]any{"name": "path", "expression": path})
}

// podControllers are the resources that a CEL policy for Pods covers by default.
var podControllers = []string{"cronjobs", "daemonsets", "deployments", "jobs", "replicasets", "statefulsets"}
