package remote

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
)

// With a cluster, the pull secrets of the ServiceAccount of a Pod template log in to its registry, as in the controllers.
func TestServiceAccountOfAPod(t *testing.T) {
	account := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"namespace": "shop", "name": "runner"},
		"imagePullSecrets": []any{map[string]any{"name": "registry-login"}, map[string]any{"name": "other-login"}},
	}}
	options := (&Cluster{Dynamic: fake.NewSimpleDynamicClient(runtime.NewScheme(), account)}).registries(nil)
	if options.ServiceAccount == nil {
		t.Fatal("no ServiceAccount is read")
	}
	names, err := options.ServiceAccount(t.Context(), "shop", "runner")
	if err != nil || !slices.Equal(names, []string{"registry-login", "other-login"}) {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := options.ServiceAccount(t.Context(), "shop", "gone"); err == nil {
		t.Error("a ServiceAccount that does not exist is no error")
	}
}
