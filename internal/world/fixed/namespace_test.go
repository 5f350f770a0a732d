package fixed

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"ephor.invalid/ephor/internal/world"
)

// A Namespace is the given object, with its given labels; nil for an unknown namespace.
func TestNamespace(t *testing.T) {
	given := func() ([]map[string]any, error) {
		return []map[string]any{{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
			"name": "a", "labels": map[string]any{"x": "own"}, "annotations": map[string]any{"n": "note"},
		}}}, nil
	}
	for _, c := range []struct {
		name      string
		values    Values
		namespace string
		want      string
	}{
		{"nothing is known", Values{}, "a", "map[]"},
		{"labels", Values{NamespaceLabels: map[string]map[string]string{"a": {"x": "y"}}}, "a", "map[metadata:map[labels:map[x:y] name:a]]"},
		{"an object", Values{Objects: given}, "a", "map[apiVersion:v1 kind:Namespace metadata:map[annotations:map[n:note] labels:map[x:own] name:a]]"},
		{"both", Values{Objects: given, NamespaceLabels: map[string]map[string]string{"a": {"y": "z"}}}, "a",
			"map[apiVersion:v1 kind:Namespace metadata:map[annotations:map[n:note] labels:map[x:own y:z] name:a]]"},
		{"another", Values{Objects: given}, "b", "map[]"},
	} {
		ns, err := New(c.values).For(world.Cluster()).Namespaces.Object(t.Context(), world.NamespaceRequest(c.namespace))
		if got := fmt.Sprint(ns); err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}
	w := New(Values{Objects: given}).For(world.InNamespace("b"))
	if _, err := w.Namespaces.Object(t.Context(), "a"); err == nil {
		t.Error("another namespace can be read")
	}
}

// A missing object is not found, with the API's text and reason.
func TestNotFound(t *testing.T) {
	w := New(Values{Objects: func() ([]map[string]any, error) { return nil, nil }}).For(world.Cluster())
	if _, err := w.Objects.Get(t.Context(), "v1", "ConfigMap", "ns", "x"); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	if namespaced, err := w.Kinds.Namespaced(t.Context(), world.Kind{APIVersion: "v1", Kind: "ConfigMap"}); namespaced || err != nil {
		t.Errorf("%v %v", namespaced, err)
	}
}

// A kind is namespaced if a parameter of it is; all others count as cluster-scoped.
func TestScopes(t *testing.T) {
	parameters := []map[string]any{
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "ns"}},
		{"apiVersion": "example.com/v1", "kind": "Bound", "metadata": map[string]any{"name": "x"}},
	}
	w := New(Values{Parameters: func() ([]map[string]any, error) { return parameters, nil }}).For(world.Cluster())
	for kind, want := range map[string]bool{"v1 ConfigMap": true, "v2 ConfigMap": false, "example.com/v1 Bound": false, "v1 Secret": false} {
		apiVersion, name, _ := strings.Cut(kind, " ")
		if got, err := w.Kinds.Namespaced(t.Context(), world.Kind{APIVersion: apiVersion, Kind: name}); got != want || err != nil {
			t.Errorf("%s: %v %v", kind, got, err)
		}
	}
}
