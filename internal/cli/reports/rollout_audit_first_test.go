package reports

import (
	"context"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// expiring lists three ClusterPolicies, one on each page. The token of the first page has expired when it is used.
type expiring struct {
	dynamic.NamespaceableResourceInterface
	of schema.GroupVersionResource
}

func (e expiring) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	e.of = r
	return e
}

func (e expiring) List(_ context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if e.of.Resource != "clusterpolicies" {
		return nil, apierrors.NewNotFound(e.of.GroupResource(), "")
	}
	if o.Continue == "expires" {
		err := apierrors.NewResourceExpired("the provided continue parameter is too old")
		err.ErrStatus.ListMeta.Continue = "rest"
		return nil, err
	}
	page := map[string]struct{ name, next string }{"": {"a", "expires"}, "rest": {"b", "last"}, "last": {"c", ""}}[o.Continue]
	object := map[string]any{"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": page.name}}
	return &unstructured.UnstructuredList{
		Object: map[string]any{"metadata": map[string]any{"continue": page.next}}, Items: []unstructured.Unstructured{{Object: object}},
	}, nil
}

// A list of policies that takes longer than its token is valid goes on.
func TestStoredPolicies(t *testing.T) {
	keys, err := storedPolicies(t.Context(), expiring{})
	if want := []string{"ClusterPolicy/a", "ClusterPolicy/b", "ClusterPolicy/c"}; err != nil || !slices.Equal(keys, want) {
		t.Errorf("%q, %v", keys, err)
	}
}
