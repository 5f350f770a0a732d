package live

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/apipath"
	"ephor.invalid/ephor/internal/world"
)

// echo answers every read with an object that repeats the request.
type echo struct{ client.Reader }

func (echo) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	u := obj.(*unstructured.Unstructured)
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	return nil
}

func TestReach(t *testing.T) {
	root := &Root{Reader: echo{}, Labels: func(_ context.Context, ns string) (map[string]string, error) {
		return map[string]string{"name": ns}, nil
	}}
	for _, c := range []struct {
		reach     world.Reach
		namespace string
		ok        bool
	}{
		{world.Cluster(), "a", true}, {world.Cluster(), "", true},
		{world.InNamespace("a"), "a", true}, {world.InNamespace("a"), "b", false}, {world.InNamespace("a"), "", false},
		{world.Reach{}, "a", false},
	} {
		w := root.For(c.reach)
		got, err := w.Objects.Get(t.Context(), "v1", "ConfigMap", c.namespace, "n")
		var far *world.OutOfReachError
		if c.ok != (err == nil) || !c.ok && !errors.As(err, &far) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
		if c.ok && (got["kind"] != "ConfigMap" || got["apiVersion"] != "v1") {
			t.Errorf("%+v: %v", c, got)
		}
		if _, err := w.Namespaces.Labels(t.Context(), world.NamespaceRequest(c.namespace)); c.ok != (err == nil) {
			t.Errorf("labels %+v: %v", c, err)
		}
	}
	if _, err := root.For(world.Cluster()).Objects.Get(t.Context(), "a/b/c", "X", "", "n"); err == nil {
		t.Error("a broken apiVersion was taken")
	}
}

// scopeless reads as the API server does for kinds that are cluster-scoped: it ignores the namespace.
type scopeless struct{ client.Reader }

func (scopeless) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.SetName(key.Name)
	return nil
}

func (scopeless) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	u := list.(*unstructured.UnstructuredList)
	u.Items = []unstructured.Unstructured{{Object: map[string]any{"metadata": map[string]any{"name": "n"}}}}
	return nil
}

// A namespaced policy reads no object of a cluster-scoped kind, whatever namespace it asks for (T26 in docs/security/threat-model.md).
func TestT26ClusterScopedKindsAreOutOfReach(t *testing.T) {
	for _, reach := range []world.Reach{world.InNamespace("a"), world.Cluster()} {
		w := (&Root{Reader: scopeless{}}).For(reach)
		var far *world.OutOfReachError
		if got, err := w.Objects.Get(t.Context(), "v1", "Node", "a", "n"); errors.As(err, &far) == reach.IsCluster() {
			t.Errorf("%+v: a Node: %v, %v", reach, got, err)
		}
		if got, err := w.Lists(t.Context(), world.Query{APIVersion: "v1", Kind: "Node", Namespace: "a"}); errors.As(err, &far) == reach.IsCluster() {
			t.Errorf("%+v: all Nodes: %v, %v", reach, got, err)
		}
	}
}

// Access to the outside is limited to the reach of the policy: paths by their content; services and global data to cluster-wide policies
// (S1, S5, S11 in docs/security/threat-model.md).
func TestOutsideIsConfined(t *testing.T) {
	asked := ""
	root := &Root{
		Reader: echo{},
		API: world.API(func(_ context.Context, r world.APIRequest) (any, error) {
			asked = r.Path.String()
			return nil, nil
		}),
		Services: world.Services(func(context.Context, world.ServiceRequest) (any, error) { return nil, nil }),
		Globals:  world.Globals(func(context.Context, world.GlobalRequest) (any, error) { return nil, nil }),
	}
	all, own := root.For(world.Cluster()), root.For(world.InNamespace("a"))
	if all.Services == nil || all.Globals == nil || own.Services != nil || own.Globals != nil {
		t.Error("services and global data are for the cluster's policies, and only for them")
	}
	root.HTTP = world.HTTP(func(context.Context, world.ServiceRequest) (map[string]any, error) { return nil, nil })
	for _, allowed := range []bool{false, true} {
		root.NamespacedHTTP = allowed
		if own := root.For(world.InNamespace("a")); root.For(world.Cluster()).HTTP == nil || (own.HTTP != nil) != allowed || own.Services != nil {
			t.Errorf("HTTP of CEL policies in namespaces where the operator's word is %v: %v", allowed, own.HTTP != nil)
		}
	}
	for text, inside := range map[string]bool{"/api/v1/namespaces/a/secrets": true, "/api/v1/namespaces/b/secrets": false, "/api/v1/secrets": false, "/version": false} {
		p, err := apipath.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for w, ok := range map[*world.World]bool{&all: true, &own: inside} {
			for name, api := range map[string]world.API{"API": w.API, "Resources": w.Resources} {
				asked = ""
				_, err := api(t.Context(), world.APIRequest{Method: world.GET, Path: p})
				if (err == nil) != ok || (asked == text) != ok {
					t.Errorf("%s, %s: asked %q, %v", name, text, asked, err)
				}
			}
		}
	}
	if w := (&Root{Reader: echo{}}).For(world.Cluster()); w.API != nil {
		t.Error("an API that was not provided")
	}
	if _, err := own.Lists(t.Context(), world.Query{APIVersion: "v1", Kind: "Secret", Namespace: "b"}); err == nil {
		t.Error("another namespace was listed")
	}
}
