package policyreview

import (
	"context"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
)

// warnReports warns of matched kinds that the reports controller may not read, since they will be missing in reports of background
// scans. It names one kind for each rule.
func (v *Reviewer) warnReports(ctx context.Context, p *policy.Program) diag.List {
	var diags diag.List
	if v.Accounts.Reports == "" || !p.Settings.Background {
		return nil
	}
	ask, user := v.newRights(), serviceAccount(v.Accounts.Reports)
	for _, r := range p.Rules {
		if r.Origin.IsAutogen() {
			continue
		}
		if text := ask.unreadable(ctx, v, user, p, r); text != "" {
			diags.Warnf(r.Path, "%s", text)
		}
	}
	return diags
}

func (a *rights) unreadable(ctx context.Context, v *Reviewer, user *policy.User, p *policy.Program, r *policy.Rule) string {
	for _, t := range r.Targets {
		if t.ByResource() || t.Wild() || t.Subresource != "" {
			continue
		}
		found, err := a.discovery.Find(t)
		if err != nil {
			continue // checkKinds reports this
		}
		for _, resource := range found {
			g := policy.Grant{APIVersion: resource.APIVersion(), Kind: resource.Kind, Verbs: []string{"get", "list", "watch"}}
			text, err := a.lacks(ctx, user, p, g, served{Group: resource.Group, Version: resource.Version, Resource: resource.Resource})
			if err != nil {
				v.Log.Warn("the rights of the reports controller cannot be looked up", "policy", p.Key(), "error", err)
				return ""
			}
			if text != "" {
				return text
			}
		}
	}
	return ""
}
