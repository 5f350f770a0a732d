package live

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ephor-dev/ephor/internal/world"
)

// echo answers every read with an object that repeats what was asked for.
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
		var far *OutOfReachError
		if c.ok != (err == nil) || !c.ok && !errors.As(err, &far) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
		if c.ok && (got["kind"] != "ConfigMap" || got["apiVersion"] != "v1") {
			t.Errorf("%+v: %v", c, got)
		}
		if _, err := w.Namespaces.Labels(t.Context(), c.namespace); c.ok != (err == nil) {
			t.Errorf("labels %+v: %v", c, err)
		}
	}
	if _, err := root.For(world.Cluster()).Objects.Get(t.Context(), "a/b/c", "X", "", "n"); err == nil {
		t.Error("a broken apiVersion was taken")
	}
}
