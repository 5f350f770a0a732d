package live

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/world"
)

// Access checks the rights of users with SubjectAccessReviews.
type Access struct{ Creator client.Writer }

// Allowed implements world.Access.
func (a Access) Allowed(ctx context.Context, r world.AccessRequest) (bool, string, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: r.Username, UID: r.UID, Groups: r.Groups,
	}}
	for k, v := range r.Extra {
		if review.Spec.Extra == nil {
			review.Spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		review.Spec.Extra[strings.ToLower(k)] = v
	}
	if r.Path != "" {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: r.Path, Verb: r.Verb}
	} else {
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Version: r.Version, Resource: r.Resource,
			Subresource: r.Subresource, Name: r.Name,
		}
	}
	if err := a.Creator.Create(ctx, review); err != nil {
		return false, "", fmt.Errorf("review the access of %s: %w", r.Username, err)
	}
	if review.Status.EvaluationError != "" && !review.Status.Allowed {
		return false, review.Status.Reason, fmt.Errorf("review the access of %s: %s", r.Username, review.Status.EvaluationError)
	}
	return review.Status.Allowed, review.Status.Reason, nil
}
