package serving

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/world/live"
)

// attestedGroups is the attribute of a user with the API groups that a token covers (Kubernetes 1.37, APIServerWebhookAuthenticationToken).
const attestedGroups = "attestation.authentication.kubernetes.io/admissionReviewAPIGroups"

// Tokens returns what verifies the tokens that the API server presents to the webhooks of a Service; nil if none is required.
func (f *ClientFlags) Tokens(cfg *rest.Config, mapper meta.RESTMapper, service, namespace string) (*admission.Tokens, error) {
	if len(f.tokenUsers) == 0 {
		return nil, nil
	}
	reviews, err := live.Reviews(cfg, mapper)
	if err != nil {
		return nil, err
	}
	audience := f.tokenAudience
	if audience == "" {
		audience = fmt.Sprintf("https://%s.%s.svc:443", service, namespace)
	}
	return &admission.Tokens{Users: f.tokenUsers, Audience: audience, Review: tokenReviews{reviews}.owner, Now: time.Now}, nil
}

// tokenReviews verifies tokens with TokenReviews of the API server.
type tokenReviews struct{ client.Writer }

func (t tokenReviews) owner(ctx context.Context, token, audience string) (admission.TokenOwner, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}}}
	if err := t.Create(ctx, review); err != nil {
		return admission.TokenOwner{}, err
	}
	s := review.Status
	if !s.Authenticated {
		return admission.TokenOwner{}, nil
	}
	out := admission.TokenOwner{Name: s.User.Username, Audiences: s.Audiences}
	if groups, restricted := s.User.Extra[attestedGroups]; restricted {
		out.Groups = append([]string{}, groups...)
	}
	return out, nil
}
