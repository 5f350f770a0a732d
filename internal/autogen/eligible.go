package autogen

import (
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/match"
)

// eligible reports whether any rules may be generated for the policy. One ineligible rule disables autogen for all
// of its rules.
func eligible(rules []kyvernov1.Rule) bool {
	aboutPods := false
	for i := range rules {
		r := &rules[i]
		if r.Generation != nil || patchesJSON(r) {
			return false
		}
		for _, f := range filters(r) {
			d := &f.ResourceDescription
			if d.Name != "" || len(d.Names) > 0 || d.Selector != nil || len(d.Annotations) > 0 {
				return false
			}
			if len(d.Kinds) > 1 && hasPod(d.Kinds) {
				return false
			}
			for _, k := range d.Kinds {
				kind := mainKind(k)
				aboutPods = aboutPods || kind == "Pod" || IsController(kind)
			}
		}
	}
	return aboutPods
}

// patchesJSON reports whether the rule mutates with JSON patches, at rule level or in a foreach.
func patchesJSON(r *kyvernov1.Rule) bool {
	if r.Mutation == nil {
		return false
	}
	var inForeach func(list []kyvernov1.ForEachMutation) bool
	inForeach = func(list []kyvernov1.ForEachMutation) bool {
		for i := range list {
			if list[i].PatchesJSON6902 != "" || inForeach(list[i].ForEachMutation) {
				return true
			}
		}
		return false
	}
	return r.Mutation.PatchesJSON6902 != "" || inForeach(r.Mutation.ForEachMutation)
}

// eligibleRule reports whether the rule of an eligible policy selects Pods.
func eligibleRule(r *kyvernov1.Rule) bool {
	if strings.HasPrefix(r.Name, templated.prefix) {
		return false // already generated, by a client that stored the computed rules
	}
	if !hasPod(kinds(&r.MatchResources)) {
		return false
	}
	if r.ExcludeResources == nil {
		return true
	}
	excluded := kinds(r.ExcludeResources)
	return len(excluded) == 0 || hasPod(excluded)
}

func filters(r *kyvernov1.Rule) []kyvernov1.ResourceFilter {
	out := filtersOf(&r.MatchResources)
	if r.ExcludeResources != nil {
		out = append(out, filtersOf(r.ExcludeResources)...)
	}
	return out
}

func filtersOf(m *kyvernov1.MatchResources) []kyvernov1.ResourceFilter {
	out := []kyvernov1.ResourceFilter{{UserInfo: m.UserInfo, ResourceDescription: m.ResourceDescription}}
	out = append(out, m.Any...)
	return append(out, m.All...)
}

func kinds(m *kyvernov1.MatchResources) []string {
	var out []string
	for _, f := range filtersOf(m) {
		out = append(out, f.ResourceDescription.Kinds...)
	}
	return out
}

func hasPod(kinds []string) bool {
	for _, k := range kinds {
		if mainKind(k) == "Pod" {
			return true
		}
	}
	return false
}

// mainKind is the kind that a selector names; empty for selectors of subresources and for malformed ones.
func mainKind(selector string) string {
	t, err := match.ParseKind(selector)
	if err != nil || t.Subresource != "" {
		return ""
	}
	return t.Kind
}
