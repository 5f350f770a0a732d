package dashboard

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// User is the owner of a token.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// Tokens identifies the users of bearer tokens.
type Tokens interface {
	// Review returns the user of a token; ok is false if the token is invalid or has expired. An error means that the API server did not
	// answer.
	Review(ctx context.Context, token string) (u User, ok bool, err error)
}

// TokenReviews identifies users with TokenReviews of the API server, with the rights of Creator, whose scheme must include them.
type TokenReviews struct{ Creator client.Writer }

// Review implements Tokens.
func (t TokenReviews) Review(ctx context.Context, token string) (User, bool, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := t.Creator.Create(ctx, review); err != nil {
		return User{}, false, fmt.Errorf("ask the API server about a token: %w", err)
	}
	if !review.Status.Authenticated || review.Status.User.Username == "" {
		return User{}, false, nil // Status.Error contains the reason for the administrator of the API server
	}
	from := review.Status.User
	u := User{Name: from.Username, UID: from.UID, Groups: from.Groups, Extra: map[string][]string{}}
	for k, v := range from.Extra {
		u.Extra[k] = v
	}
	return u, true, nil
}
