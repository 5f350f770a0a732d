package webhooks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/world"
)

// authorizer answers SubjectAccessReviews: it grants the verbs that it has.
type authorizer struct {
	client.Client
	verbs map[string]bool
	asked int
}

func (a *authorizer) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	a.asked++
	review := o.(*authorizationv1.SubjectAccessReview)
	review.Status.Allowed = a.verbs[review.Spec.ResourceAttributes.Verb+review.Spec.ResourceAttributes.Namespace]
	return nil
}

// Answers are cached: a granted right for minutes, and a missing one for a number of seconds that doubles. After a change of roles, none is
// used.
func TestAnswers(t *testing.T) {
	now := time.Unix(0, 0)
	server := &authorizer{verbs: map[string]bool{"get": true}}
	a := NewAnswers(server, func() time.Time { return now })
	ask := func(verb string, want bool, questions int) {
		t.Helper()
		server.asked = 0
		a.round()
		allowed, _, err := a.Allowed(t.Context(), world.AccessRequest{Username: "u", Verb: verb, Resource: "configmaps"})
		if err != nil || allowed != want || server.asked != questions {
			t.Errorf("%s after %s: %v, %v, with %d questions; want %v with %d", verb, now.Sub(time.Unix(0, 0)), allowed, err, server.asked, want, questions)
		}
	}
	ask("get", true, 1)
	ask("create", false, 1)
	now = now.Add(retryRights)
	ask("get", true, 0)
	ask("create", false, 1)
	now = now.Add(retryRights)
	ask("create", false, 0) // the pause has doubled
	now = now.Add(retryRights)
	server.verbs["create"] = true
	ask("create", true, 1)
	now = now.Add(grantedFor)
	ask("get", true, 1)

	server.verbs = map[string]bool{}
	ask("get", true, 0)
	a.Doubt()
	ask("get", false, 1)
	if d := a.again(true, true); d != settledAfter {
		t.Errorf("after a change of roles, the next round is due after %s", d)
	}
	now = now.Add(settledAfter)
	if missing, needed, none := a.again(true, true), a.again(false, true), a.again(false, false); missing != retryRights || needed != grantedFor || none != 0 {
		t.Errorf("the next rounds are due after %s, %s, %s", missing, needed, none)
	}
	// The API server may not have noticed the change yet, so this answer is not cached.
	server.verbs["get"] = true
	a.Doubt()
	ask("get", true, 1)
	now = now.Add(settledAfter)
	server.verbs = map[string]bool{}
	ask("get", false, 1)
}

// A right on all objects is queried once for all of them. A right in one namespace is queried separately. Both numbers are limited.
func TestAnswersAreBounded(t *testing.T) {
	server := &authorizer{verbs: map[string]bool{"get": true, "updatea": true}}
	a := NewAnswers(server, time.Now)
	a.round()
	for i := range 10_000 {
		if ok, _, err := a.Allowed(t.Context(), world.AccessRequest{Username: "u", Verb: "get", Resource: "secrets", Namespace: "a", Name: fmt.Sprint(i)}); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if server.asked != 1 {
		t.Errorf("%d questions about one right", server.asked)
	}
	for namespace, want := range map[string]bool{"a": true, "b": false} {
		if ok, _, err := a.Allowed(t.Context(), world.AccessRequest{Username: "u", Verb: "update", Resource: "secrets", Namespace: namespace}); ok != want || err != nil {
			t.Errorf("update in %s: %v, %v", namespace, ok, err)
		}
	}
	var err error
	for i := 0; err == nil && i < 10_000; i++ {
		_, _, err = a.Allowed(t.Context(), world.AccessRequest{Username: "u", Verb: "create", Resource: "secrets", Namespace: fmt.Sprint(i)})
	}
	if !errors.Is(err, errQuestions) || server.asked != maxQuestions {
		t.Errorf("%d questions in one round, %v", server.asked, err)
	}
	for i := range 3 * maxAnswers {
		if i%100 == 0 {
			a.round()
		}
		if _, _, err := a.Allowed(t.Context(), world.AccessRequest{Username: "u", Verb: "delete", Resource: "secrets", Namespace: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.kept) > maxAnswers+maxQuestions {
		t.Errorf("%d answers are kept", len(a.kept))
	}
}
