package kinds_test

import (
	"testing"

	"ephor.invalid/ephor/internal/kinds"
)

func TestPlural(t *testing.T) {
	for kind, want := range map[string]string{
		"Pod": "pods", "Ingress": "ingresses", "NetworkPolicy": "networkpolicies", "Gateway": "gateways", "Endpoints": "endpoints",
		"Mesh": "meshes", "Box": "boxes", "Patch": "patches", "": "", "Y": "ys",
	} {
		if got := kinds.Plural(kind); got != want {
			t.Errorf("Plural(%q) = %q, want %q", kind, got, want)
		}
	}
}

func TestScope(t *testing.T) {
	for _, c := range []struct {
		apiVersion, kind          string
		clusterScoped, kubernetes bool
	}{
		{"v1", "Node", true, true}, {"v1", "Pod", false, true}, {"rbac.authorization.k8s.io/v1beta1", "ClusterRole", true, true},
		{"example.com/v1", "Node", false, false}, {"apps/v1", "Deployment", false, true},
	} {
		group := ""
		for i := range c.apiVersion {
			if c.apiVersion[i] == '/' {
				group = c.apiVersion[:i]
			}
		}
		if got := kinds.ClusterScoped(c.apiVersion, c.kind); got != c.clusterScoped {
			t.Errorf("%s %s: cluster-scoped %v", c.apiVersion, c.kind, got)
		}
		if got := kinds.KubernetesGroup(group); got != c.kubernetes {
			t.Errorf("%s: of Kubernetes %v", c.apiVersion, got)
		}
	}
}
