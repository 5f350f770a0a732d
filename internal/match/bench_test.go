package match

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

func podRequest(name, namespace string, labels map[string]any) *policy.Request {
	return &policy.Request{Review: policy.Review{
		Operation: policy.Create, GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Name: name, Namespace: namespace,
		User:   &policy.User{Username: "system:serviceaccount:kube-system:replicaset-controller", Groups: []string{"system:authenticated"}},
		Object: value.Of(map[string]any{"metadata": map[string]any{"name": name, "namespace": namespace, "labels": labels}}),
	}}
}

// BenchmarkMatch measures the matcher of one rule.
func BenchmarkMatch(b *testing.B) {
	for _, c := range []struct {
		name string
		d    kyvernov1.ResourceDescription
	}{
		{"kind", kyvernov1.ResourceDescription{Kinds: []string{"Pod"}}},
		{"kinds", kyvernov1.ResourceDescription{Kinds: []string{"apps/v1/DaemonSet", "apps/v1/Deployment", "batch/v1/Job", "v1/Pod"}}},
		{"namespace", kyvernov1.ResourceDescription{Kinds: []string{"Pod"}, Namespaces: []string{"default"}}},
		{"selector", kyvernov1.ResourceDescription{Kinds: []string{"Pod"}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "w*"}}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			m, _ := Compile(kyvernov1.MatchResources{Any: []kyvernov1.ResourceFilter{{ResourceDescription: c.d}}}, nil, "", "")
			r := podRequest("web-7d9f", "default", map[string]any{"app": "web", "tier": "front"})
			b.ReportAllocs()
			for b.Loop() {
				if ok, err := m.Match(b.Context(), r); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}
