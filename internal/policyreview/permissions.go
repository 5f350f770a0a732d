package policyreview

import (
	"context"
	"slices"
	"strings"
	"time"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
)

// These texts are copied verbatim from Kyverno, except those about the author.
const (
	textRequires     = "%s requires permissions %s for resource %s"
	textMutateRights = "path: %s.: auth check fails, additional privileges are required for the service account '%s': %s"
	textDelegates    = "a namespaced policy cannot generate or change a %s"
	textAuthorRights = "path: %s.: auth check fails, additional privileges are required for the author of the policy '%s': %s"
)

// checkRights reports the rights that the work of a policy needs and an account lacks. The accounts are the background controller, which
// does the work, and for a namespaced policy also its author, since a policy may not do what its author may not do (S7 in
// docs/security/threat-model.md).
func (v *Reviewer) checkRights(ctx context.Context, p *policy.Program, author *policy.User) diag.List {
	if !slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool { return len(r.Grants) > 0 }) {
		return nil
	}
	var diags diag.List
	if v.Accounts.Background != "" {
		diags.Add(v.controllerRights(ctx, p)...)
	}
	if p.Namespace != "" {
		ask := v.newRights()
		for _, r := range p.Rules {
			if len(r.Grants) > 0 {
				v.authorRights(ctx, ask, &diags, p, r, author)
			}
		}
	}
	return diags
}

// Rights that are granted together with a policy, in one file, reach the controller's aggregated role shortly after the review begins.
// These constants are how long a review waits for them, and the pause between two checks.
const (
	GrantPatience = 2 * time.Second
	grantEvery    = 200 * time.Millisecond
)

// controllerRights checks all rights of the background controller.
func (v *Reviewer) controllerRights(ctx context.Context, p *policy.Program) diag.List {
	for waited := time.Duration(0); ; waited += grantEvery {
		var diags diag.List
		ask := v.newRights()
		for _, r := range p.Rules {
			if len(r.Grants) > 0 {
				ask.controller(ctx, &diags, p, r, v.Accounts.Background)
			}
		}
		if !diags.HasErrors() || waited >= v.Patience || !wait(ctx, grantEvery) {
			return diags
		}
	}
}

// wait waits for d; it returns false if ctx is done first, or would be soon after.
func wait(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < 4*d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// controller checks the rights of the account that does the work. As in Kyverno, it does not check copied sources. Nor does it check kinds
// that are in variables or not defined yet.
func (a *rights) controller(ctx context.Context, diags *diag.List, p *policy.Program, r *policy.Rule, account string) {
	user := serviceAccount(account)
	var missing []string
	for _, g := range r.Grants {
		if g.Source {
			continue
		}
		resources, err := a.resources(g)
		if err != nil {
			diags.Errorf(g.Path, "the kind %s cannot be looked up: %v", kindOf(g), err)
			continue
		}
		for _, resource := range resources {
			text, err := a.lacks(ctx, user, p, g, resource)
			switch {
			case err != nil:
				diags.Errorf(g.Path, "the rights of %s cannot be looked up: %v", account, err)
				diags.Code(diag.UnknownRights, account)
			case text == "":
			case r.Stage.Has(policy.StageMutateExisting):
				missing = append(missing, text)
			default:
				// Kyverno writes an empty field name for the pattern of the rule itself.
				diags.Errorf(g.Path, "path: %s.: %s", fieldBelow(g.Path, r.Path+".generate"), text)
				diags.Code(diag.MissingRights, account)
				diags.Hint(hintAggregate)
			}
		}
	}
	if len(missing) > 0 {
		diags.Errorf(r.Grants[0].Path, textMutateRights, r.Grants[0].Path, account, strings.Join(missing, "; "))
		diags.Code(diag.MissingRights, account)
		diags.Hint(hintAggregate)
	}
}

const hintAggregate = `grant them by a ClusterRole with the label rbac.kyverno.io/aggregate-to-background-controller: "true"`

func fieldBelow(path, rule string) string {
	if path == rule {
		return rule + "."
	}
	return path
}

// authorRights checks the rights of the author of a namespaced policy, in its namespace. A kind in a variable, or one that is not defined
// yet, requires the rights on all kinds that it may be.
func (v *Reviewer) authorRights(ctx context.Context, a *rights, diags *diag.List, p *policy.Program, r *policy.Rule, author *policy.User) {
	var missing []string
	for _, g := range r.Grants {
		if kind := apischema.FromAPIVersionAndKind(g.APIVersion, g.Kind); !g.Source && v.Families.Kinds().Delegates(kind.GroupKind()) {
			diags.Errorf(g.Path, textDelegates, kind.Kind)
			diags.Hint("it would be written by the background controller, whose rights are not those of %s%s", author.Username, v.useClusterWide(p))
			continue
		}
		g.Namespace = p.Namespace
		resources, err := a.resources(g)
		if err != nil {
			diags.Errorf(g.Path, "the kind %s cannot be looked up: %v", kindOf(g), err)
			continue
		}
		if len(resources) == 0 {
			resources = []served{anyOf(g)}
		}
		for _, resource := range resources {
			for _, needed := range append([]needed{{g, resource}}, escalations(g, resource)...) {
				text, err := a.lacks(ctx, author, p, needed.grant, needed.resource)
				switch {
				case err != nil:
					diags.Errorf(g.Path, "the rights of %s cannot be looked up: %v", author.Username, err)
					diags.Code(diag.UnknownRights, author.Username)
				case text != "" && !slices.Contains(missing, text):
					missing = append(missing, text)
				}
			}
		}
	}
	if len(missing) > 0 {
		diags.Errorf(r.Grants[0].Path, textAuthorRights, r.Grants[0].Path, author.Username, strings.Join(missing, "; "))
		diags.Code(diag.MissingRights, author.Username)
		diags.Hint("a policy of a namespace does nothing that its author may not do%s", v.useClusterWide(p))
	}
}

type needed struct {
	grant    policy.Grant
	resource served
}

// escalations returns the additional rights that the API server would require from the author to write the object: the author of a role or
// binding grants rights. A kind that may be either counts as both.
func escalations(g policy.Grant, resource served) (out []needed) {
	if resource.Group != rbacGroup && resource.Group != "*" || g.Source {
		return nil
	}
	add := func(resource, kind, verb string) {
		out = append(out, needed{
			policy.Grant{APIVersion: rbacGroup + "/v1", Kind: kind, Namespace: g.Namespace, Verbs: []string{verb}},
			served{Group: rbacGroup, Version: "v1", Resource: resource},
		})
	}
	if resource.Resource == "roles" || resource.Resource == "*" {
		add("roles", "Role", "escalate")
	}
	if resource.Resource == "rolebindings" || resource.Resource == "*" {
		add("roles", "Role", "bind")
		add("clusterroles", "ClusterRole", "bind")
	}
	return out
}

const rbacGroup = "rbac.authorization.k8s.io"
