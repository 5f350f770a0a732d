package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/policy"
)

// scanRights finds the rights that the reports controller lacks to scan what policies are about. One goroutine uses it.
type scanRights struct {
	account string // empty when it is not known: no right is missing then
	client  client.Client
	now     func() time.Time
	answers map[scanRight]scanAnswer
}

type scanRight struct {
	verb     string
	resource schema.GroupVersionResource
}

type scanAnswer struct {
	allowed bool
	reason  string
	until   time.Time
}

// A right that was granted is asked for again after grantedFor, a missing one after retryRights: it is often granted in a moment.
const (
	grantedFor  = 5 * time.Minute
	retryRights = 3 * time.Second
)

func newScanRights(account string, c client.Client, now func() time.Time) *scanRights {
	return &scanRights{account: account, client: c, now: now, answers: map[scanRight]scanAnswer{}}
}

// missing are the rights to get, list and watch the resources of a policy that the reports controller lacks, in their order. With listable
// it leaves out subresources, which no scan reads.
func (r *scanRights) missing(ctx context.Context, p *policy.Program, listable bool) (out []family.MissingRight, err error) {
	if r.account == "" || p == nil || !p.Settings.Background {
		return nil, nil
	}
	var order []schema.GroupVersionResource
	generated := map[schema.GroupVersionResource]bool{}
	for _, rule := range p.Rules {
		for _, t := range rule.Targets {
			if t.Resource == "" || listable && t.Subresource != "" {
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
			a, err := r.ask(ctx, scanRight{verb, at})
			if err != nil {
				return nil, err
			}
			if !a.allowed {
				out = append(out, family.MissingRight{Verb: verb, Resource: at, Reason: a.reason, Generated: generated[at]})
			}
		}
	}
	return out, nil
}

func (r *scanRights) ask(ctx context.Context, right scanRight) (scanAnswer, error) {
	if a, ok := r.answers[right]; ok && r.now().Before(a.until) {
		return a, nil
	}
	resource, sub, _ := strings.Cut(right.resource.Resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: r.account, Groups: groupsOf(r.account),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: right.verb, Group: right.resource.Group, Version: right.resource.Version, Resource: resource, Subresource: sub,
		},
	}}
	if err := r.client.Create(ctx, review); err != nil {
		return scanAnswer{}, fmt.Errorf("ask for the rights of %s: %w", r.account, err)
	}
	a := scanAnswer{allowed: review.Status.Allowed, reason: review.Status.Reason, until: r.now().Add(retryRights)}
	if a.allowed {
		a.until = r.now().Add(grantedFor)
	}
	r.answers[right] = a
	return a, nil
}

// groupsOf are the groups that every service account is in; none for another user.
func groupsOf(account string) []string {
	parts := strings.Split(account, ":")
	if len(parts) != 4 || parts[0] != "system" || parts[1] != "serviceaccount" {
		return nil
	}
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + parts[2], "system:authenticated"}
}
