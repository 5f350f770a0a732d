package live

import (
	"context"
	"errors"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/world"
)

// reviewer allows jane to get everything but the path /metrics; a review without a user fails.
type reviewer struct{ client.Writer }

func (reviewer) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	r := obj.(*authorizationv1.SubjectAccessReview)
	switch {
	case r.Spec.User == "":
		return errors.New("the API server is gone")
	case r.Spec.User == "confusing":
		r.Status.EvaluationError = "no such role"
	case r.Spec.NonResourceAttributes != nil:
		r.Status.Allowed = r.Spec.NonResourceAttributes.Path != "/metrics"
	default:
		r.Status.Allowed = r.Spec.ResourceAttributes.Verb == "get" && r.Spec.Extra["scopes"][0] == "all"
		r.Status.Reason = "because of " + r.Spec.Groups[0]
	}
	return nil
}

func TestAccess(t *testing.T) {
	root := &Root{Reader: echo{}, Access: Access{reviewer{}}}
	jane := func(verb, namespace, path string) world.AccessRequest {
		r := world.AccessRequest{Username: "jane", Groups: []string{"devs"}, Extra: map[string][]string{"Scopes": {"all"}},
			Verb: verb, Resource: "pods", Namespace: namespace, Path: path}
		return r
	}
	for _, c := range []struct {
		name    string
		reach   world.Reach
		request world.AccessRequest
		allowed bool
		failed  bool
	}{
		{"allowed", world.Cluster(), jane("get", "a", ""), true, false},
		{"not allowed", world.Cluster(), jane("delete", "a", ""), false, false},
		{"a path", world.Cluster(), jane("get", "", "/healthz"), true, false},
		{"another path", world.Cluster(), jane("get", "", "/metrics"), false, false},
		{"nobody", world.Cluster(), world.AccessRequest{Verb: "get"}, false, true},
		{"cannot be known", world.Cluster(), world.AccessRequest{Username: "confusing", Verb: "get"}, false, true},
		{"the namespace of the policy", world.InNamespace("a"), jane("get", "a", ""), true, false},
		{"another namespace", world.InNamespace("a"), jane("get", "b", ""), false, true},
		{"a cluster-scoped resource", world.InNamespace("a"), jane("get", "", ""), false, true},
		{"a path, for a namespaced policy", world.InNamespace("a"), jane("get", "a", "/healthz"), false, true},
	} {
		allowed, reason, err := root.For(c.reach).Access.Allowed(t.Context(), c.request)
		if allowed != c.allowed || (err != nil) != c.failed {
			t.Errorf("%s: %v, %v", c.name, allowed, err)
		}
		if c.request.Path == "" && !c.failed && reason != "because of devs" {
			t.Errorf("%s: reason %q", c.name, reason)
		}
	}
}

func TestNamespaceObjects(t *testing.T) {
	root := &Root{Reader: echo{}}
	for _, c := range []struct {
		reach world.Reach
		ok    bool
	}{{world.Cluster(), true}, {world.InNamespace("a"), true}, {world.InNamespace("b"), false}} {
		ns, err := root.For(c.reach).Namespaces.Object(t.Context(), "a")
		if c.ok != (err == nil) || c.ok && ns["kind"] != "Namespace" {
			t.Errorf("%+v: %v, %v", c.reach, ns, err)
		}
	}
}
