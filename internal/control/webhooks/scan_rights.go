package webhooks

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// ScanRights checks the rights that the reports controller needs to scan the resources of policies.
type ScanRights struct {
	Account string // empty if unknown; then no right is reported as missing
	Access  world.Access
}

// Missing returns the rights to get, list and watch the resources of a policy that the reports controller lacks, sorted. If listable is
// set, it omits subresources, which scans do not read.
func (r *ScanRights) Missing(ctx context.Context, p *policy.Program, listable bool) (out []family.MissingRight, err error) {
	if r.Account == "" || p == nil || !p.Settings.Background {
		return nil, nil
	}
	var order []schema.GroupVersionResource
	generated := map[schema.GroupVersionResource]bool{}
	for _, rule := range p.Rules {
		for _, t := range rule.Targets {
			if t.Resource == "" || t.Unlisted || listable && t.Subresource != "" {
				continue
			}
			at := schema.GroupVersionResource{Group: t.Group, Version: t.Version, Resource: t.Resource}
			if t.Subresource != "" {
				at.Resource += "/" + t.Subresource
			}
			if !slices.Contains(order, at) {
				order = append(order, at)
				generated[at] = rule.Origin.Custom
			}
		}
	}
	slices.SortFunc(order, func(a, b schema.GroupVersionResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Resource, b.Resource))
	})
	for _, at := range order {
		for _, verb := range []string{"get", "list", "watch"} {
			resource, sub, _ := strings.Cut(at.Resource, "/")
			allowed, reason, err := r.Access.Allowed(ctx, world.AccessRequest{
				Username: r.Account, Groups: groupsOf(r.Account), Verb: verb, Group: at.Group, Version: at.Version, Resource: resource, Subresource: sub,
			})
			if err != nil {
				return nil, err
			}
			if !allowed {
				out = append(out, family.MissingRight{Verb: verb, Resource: at, Reason: reason, Generated: generated[at]})
			}
		}
	}
	return out, nil
}

// groupsOf returns the groups that every service account has; none if the account is not a service account.
func groupsOf(account string) []string {
	parts := strings.Split(account, ":")
	if len(parts) != 4 || parts[0] != "system" || parts[1] != "serviceaccount" {
		return nil
	}
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + parts[2], "system:authenticated"}
}
