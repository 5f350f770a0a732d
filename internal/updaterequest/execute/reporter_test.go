package execute

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/policy"
)

// Results name created and patched objects, and keep the properties of their rule.
func TestReportedObjects(t *testing.T) {
	made := func(apiVersion, kind, namespace, name string) map[string]any {
		metadata := map[string]any{"name": name}
		if namespace != "" {
			metadata["namespace"] = namespace
		}
		return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
	}
	many := make([]policy.Generated, 1000)
	for i := range many {
		many[i].Object = made("v1", "Secret", "copies", fmt.Sprint("secret-", i))
	}
	for name, c := range map[string]struct {
		work       []policy.Work
		properties map[string]string
		want       map[string]string
	}{
		"nothing": {},
		"nothing made": {
			work: []policy.Work{{Kind: policy.WorkGenerate}}, properties: map[string]string{"a": "b"}, want: map[string]string{"a": "b"},
		},
		"one object": {
			work:       []policy.Work{{Generated: []policy.Generated{{Object: made("v1", "ConfigMap", "n", "a")}}}},
			properties: map[string]string{"a": "b"},
			want:       map[string]string{"a": "b", "generated-resources": "/v1, Kind=ConfigMap Name=a Namespace=n"},
		},
		"several objects": {
			work: []policy.Work{{Generated: []policy.Generated{
				{Object: made("rbac.authorization.k8s.io/v1", "ClusterRole", "", "a")}, {Object: made("networking.k8s.io/v1", "NetworkPolicy", "n", "b")},
			}}},
			want: map[string]string{"generated-resources": "rbac.authorization.k8s.io/v1, Kind=ClusterRole Name=a; networking.k8s.io/v1, Kind=NetworkPolicy Name=b Namespace=n"},
		},
		"targets, without skipped ones": {
			work: []policy.Work{{Targets: []policy.Mutated{
				{Before: made("v1", "Secret", "n", "a"), Status: policy.StatusPass}, {Before: made("v1", "Secret", "n", "b"), Status: policy.StatusSkip},
			}}},
			want: map[string]string{"patched-target": "/v1, Kind=Secret Name=a Namespace=n"},
		},
	} {
		if got := withDone(c.properties, c.work); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := withDone(nil, []policy.Work{{Generated: many}})[generatedProperty]; len(got) > maxListed+10 || !strings.HasSuffix(got, "; ...") {
		t.Errorf("many objects: %d bytes, …%q", len(got), got[max(0, len(got)-20):])
	}
}
