package webhooks

import (
	"context"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/policy"
)

// refusing denies every SubjectAccessReview.
type refusing struct{ client.Client }

func (refusing) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	o.(*authorizationv1.SubjectAccessReview).Status = authorizationv1.SubjectAccessReviewStatus{}
	return nil
}

// Rights are checked for the resources of the rules; with listable, none are needed on subresources, and never on those that the policy does
// not list.
func TestScanRights(t *testing.T) {
	access := NewAnswers(refusing{}, time.Now)
	access.round()
	r := &ScanRights{Account: "system:serviceaccount:kyverno:reports", Access: access}
	p := &policy.Program{Settings: policy.Settings{Background: true}, Rules: []*policy.Rule{{Matching: policy.Matching{Targets: []policy.Target{
		{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "pods", Subresource: "ephemeralcontainers"},
		{Version: "v1", Resource: "pods", Subresource: "resize", Unlisted: true},
	}}}}}
	for listable, want := range map[bool]string{
		true:  "get pods, list pods, watch pods",
		false: "get pods, list pods, watch pods, get pods/ephemeralcontainers, list pods/ephemeralcontainers, watch pods/ephemeralcontainers",
	} {
		missing, err := r.Missing(t.Context(), p, listable)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range missing {
			got = append(got, m.Verb+" "+m.Resource.Resource)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("listable %v: %q, want %q", listable, got, want)
		}
	}
}
