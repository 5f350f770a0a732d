package policyreview

import (
	"context"
	"slices"
	"time"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// HasWork reports whether the policy has work for the background controller whose rights are known.
func HasWork(p *policy.Program) bool {
	return p != nil && slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool { return len(r.Grants)+len(r.Foreseen) > 0 })
}

// Lacking returns the rights that the account lacks for the work of the policy, including rights to read copied objects. It omits
// kinds that are known only during evaluation.
func Lacking(ctx context.Context, d Discovery, access world.Access, account string, p *policy.Program) (out []family.LackingRights, err error) {
	ask := &rights{access: access, discovery: d, granted: &granted{}, now: time.Now, refused: map[string]string{}}
	user := serviceAccount(account)
	seen := map[string]bool{}
	for _, r := range p.Rules {
		for _, g := range slices.Concat(r.Grants, r.Foreseen) {
			resources, err := ask.resources(g)
			if err != nil {
				return nil, err
			}
			for _, resource := range resources {
				m, err := ask.missing(ctx, user, p, g, resource)
				if err != nil {
					return nil, err
				}
				text := m.text(user, g)
				if len(m.verbs) == 0 || seen[text] {
					continue
				}
				seen[text] = true
				out = append(out, family.LackingRights{Text: text, Rights: m.rights(resource)})
			}
		}
	}
	return out, nil
}

func (m missing) rights(r served) []family.MissingRight {
	at := apischema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
	if r.Subresource != "" {
		at.Resource += "/" + r.Subresource
	}
	out := make([]family.MissingRight, len(m.verbs))
	for i, verb := range m.verbs {
		out[i] = family.MissingRight{Verb: verb, Resource: at, Reason: m.reasons[i]}
	}
	return out
}
