package cleanup

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/cleanup"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// Rights looks up the rights of this process.
type Rights struct {
	Client    client.Writer
	Discovery *discovery.Discovery
}

// Missing returns the rights that this process lacks to execute a policy.
func (r Rights) Missing(ctx context.Context, p *policy.Program) ([]family.MissingRight, error) {
	return cleanup.MissingRights(ctx, p, r.Discovery, r.may)
}

// Allowed reports whether this process may use a verb on all objects of a resource.
func (r Rights) Allowed(ctx context.Context, verb string, on schema.GroupVersionResource) (bool, error) {
	ok, _, err := r.may(ctx, cleanup.Right{Verb: verb, Resource: on})
	return ok, err
}

// may reports whether this process has a right, and if not, the reason.
func (r Rights) may(ctx context.Context, x cleanup.Right) (ok bool, reason string, err error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: x.Verb, Group: x.Resource.Group, Version: x.Resource.Version, Resource: x.Resource.Resource, Namespace: x.Namespace, Name: x.Name,
		},
	}}
	if err := r.Client.Create(ctx, review); err != nil {
		return false, "", fmt.Errorf("check our rights: %w", err)
	}
	return review.Status.Allowed, review.Status.Reason, nil
}
