package operate

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"ephor.invalid/ephor/internal/compile"
)

// A policy is found by its name among all kinds that delete on a schedule. The kind selects one of several.
func TestFindScheduled(t *testing.T) {
	lists := map[schema.GroupVersionResource]string{}
	for _, k := range compile.Kinds {
		lists[k.GVR()] = k.Kind + "List"
	}
	object := func(apiVersion, kind, namespace, name string) runtime.Object {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(apiVersion)
		u.SetKind(kind)
		u.SetNamespace(namespace)
		u.SetName(name)
		return u
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists,
		object("kyverno.io/v2", "ClusterCleanupPolicy", "", "both"), object("policies.kyverno.io/v1beta1", "DeletingPolicy", "", "both"),
		object("policies.kyverno.io/v1beta1", "DeletingPolicy", "", "cel"), object("policies.kyverno.io/v1beta1", "NamespacedDeletingPolicy", "a", "own"),
		object("kyverno.io/v2", "CleanupPolicy", "a", "classic"))
	for _, c := range []struct{ namespace, name, want string }{
		{"", "cel", "DeletingPolicy"},
		{"", "both", "several policies have the name both: say ccleanpol/both or dpol/both"},
		{"", "dpol/both", "DeletingPolicy"},
		{"", "clustercleanuppolicies/both", "ClusterCleanupPolicy"},
		{"", "deletingpolicy/both", "DeletingPolicy"},
		{"", "own", "--namespace finds one of a namespace"},
		{"a", "own", "NamespacedDeletingPolicy"},
		{"a", "classic", "CleanupPolicy"},
		{"b", "own", "in the namespace b"},
		{"a", "dpol/own", `no kind "dpol" of policies that delete on a schedule; there are CleanupPolicy, NamespacedDeletingPolicy`},
	} {
		u, err := findScheduled(t.Context(), client, c.namespace, c.name)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = u.GetKind()
		}
		if !strings.Contains(got, c.want) || err == nil && got != c.want {
			t.Errorf("%s %s: %q, want %q", c.namespace, c.name, got, c.want)
		}
	}
}
