package policyreview

import (
	"context"
	"fmt"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/world"
)

// counted counts access requests.
type counted struct {
	granted bool // jane may get Secrets in the namespace a
	asked   int
}

func (c *counted) Allowed(_ context.Context, q world.AccessRequest) (bool, string, error) {
	c.asked++
	return c.granted && q.Username == "jane" && q.Verb == "get" && q.Resource == "secrets" && q.Namespace == "a", "", nil
}

func TestRightsAreAskedForOnceInSomeSeconds(t *testing.T) {
	now := time.Unix(0, 0)
	srv := &Reviewer{Now: func() time.Time { return now }}
	access := &counted{granted: true}
	ask := func(q world.AccessRequest) bool {
		t.Helper()
		r := srv.newRights() // as for another policy
		r.access = access
		allowed, _, err := r.allowed(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return allowed
	}
	jane := world.AccessRequest{Username: "jane", Verb: "get", Resource: "secrets", Namespace: "a"}
	for range 1000 {
		if !ask(jane) {
			t.Fatal("refused")
		}
	}
	if access.asked != 1 {
		t.Errorf("asked %d times", access.asked)
	}
	// Another user, or any other attribute, is a different request.
	for i, change := range []func(*world.AccessRequest){
		func(q *world.AccessRequest) { q.Username = "bob" }, func(q *world.AccessRequest) { q.Verb = "delete" },
		func(q *world.AccessRequest) { q.Namespace = "b" }, func(q *world.AccessRequest) { q.Resource, q.Subresource = "pods", "exec" },
		func(q *world.AccessRequest) { q.Groups = []string{"x"} }, func(q *world.AccessRequest) { q.UID = "u" },
		func(q *world.AccessRequest) { q.Extra = map[string][]string{"scopes": {"a"}} }, func(q *world.AccessRequest) { q.Name = "n" },
	} {
		q := jane
		change(&q)
		if ask(q); access.asked != i+2 {
			t.Errorf("%+v was not asked", q)
		}
	}
	// A withdrawn right is noticed soon; a denied one is checked again at once.
	access.granted, access.asked = false, 0
	now = now.Add(grantedFor - 1)
	if !ask(jane) || access.asked > 0 {
		t.Error("checked again too early")
	}
	now = now.Add(1)
	for n := range 2 {
		if ask(jane) || access.asked != n+1 {
			t.Error("the right was withdrawn")
		}
	}
	for i := range 3 * maxGranted {
		srv.granted.add(fmt.Sprint(i), now)
	}
	if n := len(srv.granted.until); n > maxGranted {
		t.Errorf("%d answers are remembered", n)
	}
	now = now.Add(grantedFor)
	if srv.granted.add("new", now); !srv.granted.has("new", now) || len(srv.granted.until) != 1 {
		t.Error("there is no room for new answers")
	}
}
