package manifest

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"ephor.invalid/ephor/internal/value"
)

// derived reports whether the API server fills the absent field of the map at key from another field of the map.
func (d *differ) derived(key, field string, now map[string]any) bool {
	if !builtIn(d.about.Group) {
		return false
	}
	switch {
	case field == "targetPort" && d.about.Kind == "Service" && matches("spec.ports.*", key):
		return value.Equal(now["targetPort"], now["port"])
	case field == "serviceAccount" && podSpecs[d.about.Kind] == key+".":
		return value.Equal(now["serviceAccount"], now["serviceAccountName"])
	case field == "policyTypes" && d.about.Kind == "NetworkPolicy" && key == "spec":
		want := []any{"Ingress"}
		if egress, _ := now["egress"].([]any); len(egress) > 0 {
			want = append(want, "Egress")
		}
		return value.Equal(now["policyTypes"], want)
	case field == "requests" && strings.HasSuffix(key, ".resources"):
		return value.Equal(now["requests"], now["limits"])
	}
	return false
}

// injected reports whether an element at the end of a list of a Pod is the token of its service account, which the API server mounts into
// every Pod. It checks the content, not only the name.
func (d *differ) injected(key string, element any) bool {
	if d.about.Kind != "Pod" || d.about.Group != "" {
		return false
	}
	m, _ := element.(map[string]any)
	if name, _ := m["name"].(string); !strings.HasPrefix(name, "kube-api-access-") {
		return false
	}
	switch {
	case key == "spec.volumes":
		projected, _ := m["projected"].(map[string]any)
		sources, _ := projected["sources"].([]any)
		return len(m) == 2 && len(sources) > 0 && !slices.ContainsFunc(sources, func(s any) bool { return !tokenSource(s) })
	case matches("spec.containers.*.volumeMounts", key), matches("spec.initContainers.*.volumeMounts", key):
		return m["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount" && m["readOnly"] == true && len(m) == 3
	}
	return false
}

func tokenSource(source any) bool {
	m, _ := source.(map[string]any)
	if len(m) != 1 {
		return false
	}
	if c, ok := m["configMap"].(map[string]any); ok {
		return c["name"] == "kube-root-ca.crt"
	}
	return m["serviceAccountToken"] != nil || m["downwardAPI"] != nil
}

// sameQuantity reports whether two texts or numbers are the same quantity of a resource. The API server normalizes quantities: 0.5 becomes
// 500m.
func sameQuantity(key string, a, b any) bool {
	steps := strings.Split(key, ".")
	last := steps[len(steps)-1]
	amount := last == "storage" || last == "sizeLimit" || last == "divisor" ||
		slices.Contains(steps, "limits") || slices.Contains(steps, "requests")
	if !amount || a == nil || b == nil {
		return false
	}
	x, errX := resource.ParseQuantity(scalar(a))
	y, errY := resource.ParseQuantity(scalar(b))
	return errX == nil && errY == nil && x.Cmp(y) == 0
}

func scalar(v any) string {
	switch v := v.(type) {
	case string:
		if len(v) <= 64 { // any quantity is shorter than this
			return v
		}
	case int64, float64:
		return value.JSON(v)
	}
	return ""
}
