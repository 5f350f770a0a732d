package lookups

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"ephor.invalid/ephor/internal/controller"
)

// longestAsking is the longest pause between two attempts to read the user name of this process.
const longestAsking = 8 * time.Second

// Account returns the user name of this process at the API server. Every authenticated client may read its own.
func Account(ctx context.Context, m manager.Manager) (string, error) {
	c, err := authentication.NewForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return "", err
	}
	for pause := 250 * time.Millisecond; ; pause *= 2 {
		answer, err := c.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err == nil {
			return answer.Status.UserInfo.Username, nil
		}
		if pause > longestAsking || ctx.Err() != nil {
			return "", fmt.Errorf("ask the API server for our user name: %w", err)
		}
		controller.Sleep(ctx, pause) // the API server may be starting, or be busy
	}
}
