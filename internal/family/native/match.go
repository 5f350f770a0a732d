package native

import (
	"context"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
)

// constraints are compiled match constraints.
type constraints struct {
	include, exclude  []admissionregistrationv1.NamedRuleWithOperations
	namespace, object labels.Selector // nil for all
}

func compileConstraints(m *admissionregistrationv1.MatchResources, path string) (*constraints, diag.List) {
	var diags diag.List
	c := &constraints{include: m.ResourceRules, exclude: m.ExcludeResourceRules}
	selector := func(s *metav1.LabelSelector, field string) labels.Selector {
		if s == nil {
			return nil
		}
		out, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			diags.Errorf(path+"."+field, "%v", err)
		}
		return out
	}
	c.namespace = selector(m.NamespaceSelector, "namespaceSelector")
	c.object = selector(m.ObjectSelector, "objectSelector")
	return c, diags
}

// match reports whether the constraints select the request. Without rules every resource is meant.
func (c *constraints) match(ctx context.Context, r *policy.Request) (bool, error) {
	covers := func(rule admissionregistrationv1.NamedRuleWithOperations) bool { return covers(&rule, r) }
	if slices.ContainsFunc(c.exclude, covers) || len(c.include) > 0 && !slices.ContainsFunc(c.include, covers) {
		return false, nil
	}
	if ok, err := c.selectsObject(r); !ok || err != nil {
		return false, err
	}
	return c.selectsNamespace(ctx, r)
}

// covers reports whether a rule is about the request.
func covers(rule *admissionregistrationv1.NamedRuleWithOperations, r *policy.Request) bool {
	resource, main := r.GVR.Resource, r.GVR.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	namespaced := r.Namespace != "" && !(r.GVK.Group == "" && r.GVK.Kind == "Namespace")
	scope := admissionregistrationv1.AllScopes
	if rule.Scope != nil {
		scope = *rule.Scope
	}
	switch {
	case !hasOrAny(rule.APIGroups, r.GVR.Group), !hasOrAny(rule.APIVersions, r.GVR.Version),
		scope == admissionregistrationv1.NamespacedScope && !namespaced,
		scope == admissionregistrationv1.ClusterScope && namespaced,
		len(rule.ResourceNames) > 0 && !slices.Contains(rule.ResourceNames, r.Name):
		return false
	}
	// The API server refuses rules without operations; in files they mean all.
	operation := len(rule.Operations) == 0 || slices.ContainsFunc(rule.Operations, func(o admissionregistrationv1.OperationType) bool {
		return o == admissionregistrationv1.OperationAll || string(o) == string(r.Operation)
	})
	return operation && slices.ContainsFunc(rule.Resources, func(wanted string) bool {
		switch wanted {
		case "*/*", resource:
			return true
		case "*":
			return r.Subresource == ""
		case main + "/*":
			return r.Subresource != ""
		case "*/" + r.Subresource:
			return r.Subresource != ""
		}
		return false
	})
}

func hasOrAny(list []string, s string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, s)
}

// selectsObject asks the object selector: one of the two objects has to be selected, as for the API server.
func (c *constraints) selectsObject(r *policy.Request) (bool, error) {
	if c.object == nil || c.object.Empty() {
		return true, nil
	}
	object, err := r.Object.Map()
	if err != nil {
		return false, err
	}
	old, err := r.OldObject.Map()
	if err != nil {
		return false, err
	}
	return object != nil && c.object.Matches(labelsOf(object)) || old != nil && c.object.Matches(labelsOf(old)), nil
}

// selectsNamespace asks the namespace selector. A Namespace is selected by its own labels, and what lies outside of
// namespaces always.
func (c *constraints) selectsNamespace(ctx context.Context, r *policy.Request) (bool, error) {
	switch {
	case c.namespace == nil || c.namespace.Empty():
		return true, nil
	case r.GVK.Group == "" && r.GVK.Kind == "Namespace":
		object, err := r.Subject()
		return c.namespace.Matches(labelsOf(object)), err
	case r.Namespace == "":
		return true, nil
	}
	found, err := r.NamespaceLabels(ctx)
	return c.namespace.Matches(labels.Set(found)), err
}

func labelsOf(o map[string]any) labels.Set {
	meta, _ := o["metadata"].(map[string]any)
	in, _ := meta["labels"].(map[string]any)
	out := labels.Set{}
	for k, v := range in {
		out[k], _ = v.(string)
	}
	return out
}

// targets are the resources that the policy is about, for an index; which kinds they have is for the cluster to say.
func (p *subject) targets() []policy.Target {
	if p.match == nil {
		return nil
	}
	var out []policy.Target
	for _, rule := range p.match.include {
		for _, group := range rule.APIGroups {
			for _, version := range rule.APIVersions {
				for _, resource := range rule.Resources {
					main, sub, _ := strings.Cut(resource, "/")
					out = append(out, policy.Target{Group: group, Version: version, Kind: "*", Resource: main, Subresource: sub})
				}
			}
		}
	}
	return out
}
