package celpolicy

import (
	"context"
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/constraint"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Two subresources change the containers of a running Pod: ephemeralcontainers (kubectl debug) and resize. The object of their requests is
// the Pod. As in the API server, a rule on `pods` does not select them. A policy that validates updates of Pods is asked about both even so,
// unless its author lists them or sets SubresourcesAnnotation.

// SubresourcesAnnotation on a policy, with the value false, limits the policy to the resources that its rules list.
const SubresourcesAnnotation = names.Domain + "pod-subresources"

// podSubresources are the subresources that change the containers of a Pod.
var podSubresources = []string{"ephemeralcontainers", "resize"}

// subresources selects the requests for subresources of Pods that a policy does not list.
type subresources struct {
	names       []string
	constraints *constraint.Constraints
}

// forSubresources returns constraints that select updates of Pods by subresources that m does not list, as m selects updates of Pods:
// with the same names, selectors and exclusions. It returns nil if there are none.
func forSubresources(m *admissionregistrationv1.MatchResources, annotations map[string]string) (_ *admissionregistrationv1.MatchResources, names []string) {
	if m == nil || annotations[SubresourcesAnnotation] == "false" {
		return nil, nil
	}
	for _, sub := range podSubresources {
		if !slices.ContainsFunc(m.ResourceRules, func(r admissionregistrationv1.NamedRuleWithOperations) bool {
			return updatesPods(&r) && slices.ContainsFunc(r.Resources, func(resource string) bool {
				return slices.Contains([]string{"pods/" + sub, "pods/*", "*/" + sub, "*/*"}, resource)
			})
		}) {
			names = append(names, sub)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	var resources []string
	for _, sub := range names {
		resources = append(resources, "pods/"+sub)
	}
	out := m.DeepCopy()
	out.ResourceRules = nil
	for i := range m.ResourceRules {
		if r := &m.ResourceRules[i]; updatesPods(r) && slices.Contains(r.Resources, "pods") {
			out.ResourceRules = append(out.ResourceRules, *withResources(r, resources))
		}
	}
	if len(out.ResourceRules) == 0 {
		return nil, nil
	}
	for i := range m.ExcludeResourceRules {
		r := &m.ExcludeResourceRules[i]
		if updatesPods(r) && slices.ContainsFunc(r.Resources, func(resource string) bool { return slices.Contains([]string{"pods", "pods/*", "*", "*/*"}, resource) }) {
			out.ExcludeResourceRules = append(out.ExcludeResourceRules, *withResources(r, resources))
		}
	}
	return out, names
}

// updatesPods reports whether a rule may select updates of Pods or of their subresources, if it lists the resource.
func updatesPods(r *admissionregistrationv1.NamedRuleWithOperations) bool {
	has := func(list []string, one string) bool { return slices.Contains(list, one) || slices.Contains(list, "*") }
	return has(r.APIGroups, "") && has(r.APIVersions, "v1") && (r.Scope == nil || *r.Scope != admissionregistrationv1.ClusterScope) &&
		(len(r.Operations) == 0 || slices.Contains(r.Operations, admissionregistrationv1.Update) || slices.Contains(r.Operations, admissionregistrationv1.OperationAll))
}

// withResources returns a copy of a rule that selects updates of these resources of the core group.
func withResources(r *admissionregistrationv1.NamedRuleWithOperations, resources []string) *admissionregistrationv1.NamedRuleWithOperations {
	out := r.DeepCopy()
	out.APIGroups, out.APIVersions, out.Resources = []string{""}, []string{"v1"}, slices.Clone(resources)
	out.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	return out
}

// addSubresources makes the policy also select the subresources of Pods that its constraints do not list. Call it before NewRule.
func (s *Subject) addSubresources(p *policy.Program, m *admissionregistrationv1.MatchResources) {
	m, names := forSubresources(m, p.Annotations)
	if m == nil || len(s.mistakes) > 0 {
		return
	}
	constraints, diags := constraint.Compile(m, "spec.matchConstraints", constraint.Options{GenerateNames: true})
	if diags.HasErrors() {
		s.mistakes = diags.Errors()
		return
	}
	s.subresources = &subresources{names: names, constraints: constraints}
}

// targets returns the resources with those that the policy does not list.
func (x *subresources) targets(listed []policy.Target) []policy.Target {
	out := slices.Clone(listed)
	for _, t := range x.constraints.Targets() {
		t.Unlisted = true
		out = append(out, t)
	}
	return out
}

// Unlisted reports whether the request is for a subresource of a Pod that the policy does not list.
func (s *Subject) Unlisted(r *policy.Request) bool {
	return s.subresources != nil && r.GVR.Group == "" && r.GVR.Resource == "pods" && slices.Contains(s.subresources.names, r.Subresource)
}

// OnlyListed limits a rule of the policy to the resources that the policy lists.
func (s *Subject) OnlyListed(r *policy.Rule) {
	if s.subresources == nil {
		return
	}
	r.Targets = slices.DeleteFunc(slices.Clone(r.Targets), func(t policy.Target) bool { return t.Unlisted })
	match := r.Match
	r.Match = func(ctx context.Context, request *policy.Request) (bool, error) {
		if s.Unlisted(request) {
			return false, nil
		}
		return match(ctx, request)
	}
}

// Existing returns the result for a violation in a request for a subresource that the policy does not list. Violations that the Pod had
// before do not count: a request that changes nothing would have them, too. What a new debug container violates by itself does count.
// failures returns the violations of a request.
func Existing(c *policy.Call, y policy.Yield, failures func(*policy.Call) ([]celrule.Violation, error)) policy.Yield {
	if c.Request.Operation != policy.Update || c.Request.OldObject == nil {
		return y
	}
	on := func(object *value.Doc) ([]celrule.Violation, error) {
		of := *c
		of.Request = c.Request.WithObject(object)
		return failures(&of)
	}
	before, err := on(c.Request.OldObject)
	if err == nil && len(before) == 0 {
		return y
	}
	var now []celrule.Violation
	if err == nil {
		now, err = failures(c)
	}
	switch {
	case err != nil:
		y.Message += " (it is not known whether the Pod violated the policy before: " + value.Message(Text(err)) + ")"
		return y
	case slices.ContainsFunc(now, func(v celrule.Violation) bool { return !slices.Contains(before, v) }), debugged(c.Request, on):
		return y
	}
	return policy.Yield{Status: policy.StatusSkip, Message: policy.TextPreExisting}
}

// debugged reports whether the debug containers that a request adds violate the policy by themselves: the Pod with no other containers and
// no volumes violates it, or cannot be evaluated, and without them it can and does not. Nothing is known if the latter cannot be evaluated.
func debugged(r *policy.Request, violations func(*value.Doc) ([]celrule.Violation, error)) bool {
	object, err := r.Object.Map()
	old, failed := r.OldObject.Map()
	if err != nil || failed != nil {
		return false
	}
	had := map[any]bool{}
	for _, name := range debugContainers(old) {
		had[name["name"]] = true
	}
	var added []any
	for _, container := range debugContainers(object) {
		if !had[container["name"]] {
			added = append(added, container)
		}
	}
	if len(added) == 0 {
		return false
	}
	without, err := violations(reduced(object, []any{}))
	if err != nil {
		return false
	}
	with, err := violations(reduced(object, added))
	return err != nil || slices.ContainsFunc(with, func(v celrule.Violation) bool {
		return !slices.ContainsFunc(without, func(w celrule.Violation) bool { return w.Index == v.Index })
	})
}

// debugContainers returns the ephemeral containers of a Pod.
func debugContainers(pod map[string]any) (out []map[string]any) {
	spec, _ := pod["spec"].(map[string]any)
	list, _ := spec[imageref.EphemeralContainers.Field].([]any)
	for _, e := range list {
		if container, ok := e.(map[string]any); ok {
			out = append(out, container)
		}
	}
	return out
}

// reduced returns a Pod with these ephemeral containers, no other containers and no volumes.
func reduced(pod map[string]any, debug []any) *value.Doc {
	spec, _ := pod["spec"].(map[string]any)
	out, with := maps.Clone(pod), maps.Clone(spec)
	for _, l := range []imageref.List{imageref.Containers, imageref.InitContainers, imageref.ImageVolumes} {
		if with[l.Field] != nil {
			with[l.Field] = []any{}
		}
	}
	with[imageref.EphemeralContainers.Field] = debug
	out["spec"] = with
	return value.Of(out)
}
