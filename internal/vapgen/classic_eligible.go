package vapgen

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/wildcard"
)

// The reasons why a policy is not translated, with Kyverno's texts; they follow Native.Skipped.
const (
	reasonNoRules           = ": no rules found."
	reasonRules             = ": multiple rules are not applicable."
	reasonNotCEL            = " for non CEL rules."
	reasonNotAsked          = ": validate.cel.generate is not set to true."
	reasonPreconditions     = ": preconditions are not applicable."
	reasonOverrides         = ": multiple validationFailureActionOverrides are not applicable."
	reasonOverrideNamespace = ": Namespaces in validationFailureActionOverrides is not applicable."
	reasonUsers             = ": Roles / ClusterRoles / Subjects in `any/all` is not applicable."
	reasonAnnotations       = ": Annotations in resource description is not applicable."
	reasonNames             = ": name and names in one filter are not applicable."
	reasonClusterScoped     = ": namespaces and namespaceSelector select no cluster-scoped resources."
	reasonWildcardName      = ": wildcards in resource name is not applicable."
	reasonWildcardNamespace = ": wildcards in namespace name is not applicable."
	reasonWildcardLabel     = ": wildcards in labels of selectors are not applicable."
	reasonMatchAll          = ": multiple 'all' in the match block is not applicable."
	reasonExcludeAll        = ": multiple 'all' in the exclude block is not applicable."
	reasonExceptionAll      = ": multiple 'all' in the PolicyException's match block is not applicable."
	reasonExcludeSelectors  = ": NamespaceSelector / ObjectSelector in the exclude block is not applicable."
	reasonMatchSelectors    = ": NamespaceSelector / ObjectSelector across multiple resources in the match block are not applicable."
	reasonExcludeWithin     = ": excluding a resource within a namespace is not applicable."
	reasonExceptionRules    = ": multiple ruleNames in PolicyException is not applicable."
	reasonExceptionWhen     = ": Conditions in PolicyException is not applicable."
)

// filters returns the filters of a match or exclude block in any of its forms; any one of them must match. The reason says
// why they cannot be translated.
func filters(m *kyvernov1.MatchResources, severalAll string) (out kyvernov1.ResourceFilters, reason string) {
	switch {
	case m == nil:
		return nil, ""
	case len(m.All) > 1:
		return nil, severalAll
	case len(m.All) == 1 && len(m.Any) > 0:
		return nil, severalAll
	case len(m.All) == 1:
		out = m.All
	case len(m.Any) > 0:
		out = m.Any
	default:
		one := kyvernov1.ResourceFilter{UserInfo: m.UserInfo, ResourceDescription: m.ResourceDescription}
		if one.ResourceDescription.IsZero() && len(one.Roles)+len(one.ClusterRoles)+len(one.Subjects) == 0 {
			return nil, ""
		}
		out = kyvernov1.ResourceFilters{one}
	}
	for i := range out {
		f, d := &out[i], &out[i].ResourceDescription
		switch {
		case len(f.Roles)+len(f.ClusterRoles)+len(f.Subjects) > 0:
			return nil, reasonUsers
		case len(d.Annotations) > 0:
			return nil, reasonAnnotations
		case d.Name != "" && len(d.Names) > 0:
			return nil, reasonNames // both must hold, and the API server takes one list
		case slices.ContainsFunc(namesOf(d), wildcard.Has):
			return nil, reasonWildcardName
		case slices.ContainsFunc(d.Namespaces, wildcard.Has):
			return nil, reasonWildcardNamespace
		}
	}
	return out, ""
}

// anyLabel reports whether a selector has wildcards, which the API server does not accept.
func anyLabel(s *metav1.LabelSelector) bool {
	if s != nil {
		for key, v := range s.MatchLabels {
			if wildcard.Has(key) || wildcard.Has(v) {
				return true
			}
		}
	}
	return false
}

func namesOf(d *kyvernov1.ResourceDescription) []string {
	if d.Name != "" {
		return []string{d.Name}
	}
	return d.Names
}

// matched returns the filters of the match block. Namespaces and labels apply to a whole ValidatingAdmissionPolicy, so
// only a single filter may restrict them.
func matched(r *kyvernov1.Rule) (kyvernov1.ResourceFilters, string) {
	out, reason := filters(&r.MatchResources, reasonMatchAll)
	if reason != "" {
		return nil, reason
	}
	for i := range out {
		d := &out[i].ResourceDescription
		switch {
		case len(out) > 1 && (d.Selector != nil || d.NamespaceSelector != nil || len(d.Namespaces) > 0):
			return nil, reasonMatchSelectors
		case anyLabel(d.Selector) || anyLabel(d.NamespaceSelector):
			return nil, reasonWildcardLabel
		}
	}
	return out, ""
}

// excluded returns the filters of an exclude block, or of an exception's match block.
func excluded(m *kyvernov1.MatchResources, severalAll string) (kyvernov1.ResourceFilters, string) {
	out, reason := filters(m, severalAll)
	if reason != "" {
		return nil, reason
	}
	for i := range out {
		d := &out[i].ResourceDescription
		switch {
		case d.Selector != nil || d.NamespaceSelector != nil:
			return nil, reasonExcludeSelectors
		case len(d.Namespaces) > 0 && (len(d.Kinds) > 0 || len(namesOf(d)) > 0):
			return nil, reasonExcludeWithin
		}
	}
	return out, ""
}

// excepted returns the filters of an exception.
func excepted(e *kyvernov2.PolicyException, policy string) (kyvernov1.ResourceFilters, string) {
	for _, x := range e.Spec.Exceptions {
		if x.PolicyName == policy && len(x.RuleNames) > 1 {
			return nil, reasonExceptionRules
		}
	}
	if c := e.Spec.Conditions; c != nil && len(c.AnyConditions)+len(c.AllConditions) > 0 {
		return nil, reasonExceptionWhen
	}
	return excluded(&kyvernov1.MatchResources{Any: e.Spec.Match.Any, All: e.Spec.Match.All}, reasonExceptionAll)
}

// action returns the effective failure action: Enforce or Audit.
func action(spec *kyvernov1.Spec, v *kyvernov1.Validation) (enforce bool, reason string) {
	overrides := slices.Concat(spec.ValidationFailureActionOverrides, v.FailureActionOverrides)
	if len(overrides) > 1 {
		return false, reasonOverrides
	}
	enforce = spec.ValidationFailureAction.IsEnforce()
	if v.FailureAction != nil && *v.FailureAction != "" {
		enforce = v.FailureAction.IsEnforce()
	}
	for _, o := range overrides {
		if len(o.Namespaces) > 0 || o.NamespaceSelector != nil {
			return false, reasonOverrideNamespace
		}
		enforce = o.Action.IsEnforce()
	}
	return enforce, ""
}
