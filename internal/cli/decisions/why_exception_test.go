package decisions

import (
	"testing"

	"ephor.invalid/ephor/internal/golden"
)

// An exception names the controller of a refused object only if it can cover what the controller makes.
func TestControllerOf(t *testing.T) {
	owned := func(kind, name, apiVersion, labels string) string {
		return "{metadata: {name: o, labels: {" + labels + "}, ownerReferences: [{kind: A, name: a, apiVersion: v1}, {kind: " + kind + ", name: " + name + ", apiVersion: " + apiVersion + ", controller: true}]}}"
	}
	for _, c := range []struct{ object, want string }{
		{"{metadata: {name: o}}", "/"},
		{owned("DaemonSet", "agent", "apps/v1", ""), "DaemonSet/agent"},
		{owned("ReplicaSet", "web-5b8c", "apps/v1", "pod-template-hash: 5b8c"), "Deployment/web"},
		{owned("ReplicaSet", "web", "apps/v1", ""), "ReplicaSet/web"},
		{owned("Job", "night-1", "batch/v1", ""), "Job/night-1"},
		{owned("Prometheus", "main", "monitoring.coreos.com/v1", ""), "/"},
		{owned("Node", "worker-1", "v1", ""), "/"},
		{owned("StatefulSet", "db", "apps.example.com/v1", ""), "/"},
	} {
		kind, name := controllerOf(golden.Decode[map[string]any](t, []byte(c.object)))
		if got := kind + "/" + name; got != c.want {
			t.Errorf("%s: %s, want %s", c.object, got, c.want)
		}
	}
}
