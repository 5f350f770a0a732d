package lint

import (
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

var unreachableRule = &Check{
	Name: "unreachable-rule",
	Doc: "With `applyRules: One` the first rule that passes or fails ends the policy. A rule after one that always does so, for all resources " +
		"that it matches itself, is never evaluated. Put the narrower rule first, or remove `applyRules: One`.",
	Example: `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: example
spec:
  applyRules: One
  rules:
  - name: every-pod
    match:
      any:
      - resources:
          kinds: [Pod]
    validate:
      pattern:
        metadata:
          name: "?*"
  - name: shop
    match:
      any:
      - resources:
          kinds: [Pod]
          namespaces: [shop]
    validate:
      pattern:
        spec:
          hostNetwork: "false"
`,
	policy: func(in *input) {
		rules := in.policy.Spec.Rules
		if in.policy.Spec.ApplyRules == nil || *in.policy.Spec.ApplyRules != "One" {
			return
		}
		for j := range rules {
			for i := range rules[:j] {
				if alwaysDecides(&rules[i], in.rules[i]) && rules[j].Validation != nil && coversAll(&rules[i], &rules[j]) {
					in.warn(rulePath(j)+".name", "put it before "+rules[i].Name+", or remove applyRules: One",
						"rule %s is never evaluated: rule %s decides for all its resources, and applyRules is One", rules[j].Name, rules[i].Name)
					break
				}
			}
		}
	},
}

// alwaysDecides reports whether a rule passes or fails for every resource that it matches: it has no preconditions, no
// exclude and no conditional anchors.
func alwaysDecides(r *kyvernov1.Rule, raw map[string]any) bool {
	if r.Validation == nil || r.Preconditions != nil || r.ExcludeResources != nil || len(r.CELPreconditions) > 0 {
		return false
	}
	v, _ := raw["validate"].(map[string]any)
	switch {
	case v["deny"] != nil, v["podSecurity"] != nil:
		return true
	case v["pattern"] != nil:
		return !mayPassOver(v["pattern"])
	case v["anyPattern"] != nil:
		return !mayPassOver(v["anyPattern"])
	}
	return false
}

// mayPassOver reports whether a pattern has an anchor that can make the rule skip a resource.
func mayPassOver(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if mayPassOver(e) {
				return true
			}
		}
	case map[string]any:
		for k, e := range v {
			if strings.HasSuffix(k, ")") && (strings.HasPrefix(k, "(") || strings.HasPrefix(k, "<(")) || strings.Contains(k, "{{") || mayPassOver(e) {
				return true
			}
		}
	}
	return false
}

// coversAll reports whether the first rule matches everything that the second does, as far as kinds show that.
func coversAll(first, second *kyvernov1.Rule) bool {
	var wide []policy.Target
	for _, f := range filtersOf(&first.MatchResources, "") {
		if len(first.MatchResources.All) > 1 || !onlyKinds(&f.ResourceFilter) {
			continue
		}
		for _, k := range f.ResourceDescription.Kinds {
			if t, err := match.ParseKind(k); err == nil {
				wide = append(wide, t)
			}
		}
	}
	any := len(second.MatchResources.All) == 0
	filters := filtersOf(&second.MatchResources, "")
	for _, f := range filters {
		if covered := len(f.ResourceDescription.Kinds) > 0 && kindsCovered(f.ResourceDescription.Kinds, wide); covered != any {
			return covered
		}
	}
	return any && len(filters) > 0
}

func kindsCovered(kinds []string, wide []policy.Target) bool {
	for _, k := range kinds {
		t, err := match.ParseKind(k)
		found := false
		for _, w := range wide {
			found = found || err == nil && covers(w.Group, t.Group) && covers(w.Version, t.Version) && covers(w.Kind, t.Kind) && covers(w.Subresource, t.Subresource)
		}
		if !found {
			return false
		}
	}
	return true
}

// covers reports whether the wildcard a matches everything that the wildcard b matches, as far as that is easy to
// decide.
func covers(a, b string) bool {
	return a == "*" || a == b || !wildcard.Has(b) && wildcard.Match(a, b)
}
