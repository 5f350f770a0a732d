package policy

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/value"
)

// targetRequest returns a request for group/version/resource[/sub] with the given kind, in a namespace if that is not empty.
func targetRequest(resource, kind, namespace string, more ...func(*Request)) *Request {
	parts := strings.SplitN(resource, "/", 4)
	r := &Request{Review: Review{Operation: Create, Namespace: namespace, Name: "x"}}
	r.GVR = schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	r.GVK = schema.GroupVersionKind{Group: parts[0], Version: parts[1], Kind: kind}
	if len(parts) > 3 {
		r.Subresource = parts[3]
	}
	labels := map[string]any{"app": "web"}
	r.Object = value.Of(map[string]any{"metadata": map[string]any{"name": "x", "labels": labels}})
	for _, f := range more {
		f(r)
	}
	return r
}

func TestTargetMatches(t *testing.T) {
	pod := targetRequest("/v1/pods", "Pod", "ns")
	exec := targetRequest("/v1/pods/exec", "Pod", "ns")
	resize := targetRequest("/v1/pods/resize", "Pod", "ns")
	config := targetRequest("/v1/configmaps", "ConfigMap", "ns")
	deployment := targetRequest("apps/v1/deployments", "Deployment", "ns")
	scale := targetRequest("apps/v1/deployments/scale", "Deployment", "ns")
	node := targetRequest("/v1/nodes", "Node", "")
	namespace := targetRequest("/v1/namespaces", "Namespace", "x")
	update := targetRequest("/v1/pods", "Pod", "ns", func(r *Request) {
		r.Operation = Update
		r.Object = value.Of(map[string]any{"metadata": map[string]any{"name": "x"}})
		r.OldObject = value.Of(map[string]any{"metadata": map[string]any{"name": "x", "labels": map[string]any{"app": "web"}}})
	})
	generated := targetRequest("/v1/pods", "Pod", "ns", func(r *Request) {
		r.Name, r.Object = "", value.Of(map[string]any{"metadata": map[string]any{"generateName": "x-"}})
	})
	nameless := targetRequest("/v1/", "Pod", "ns") // the resource is unknown
	scanned := targetRequest("/v1/pods", "Pod", "ns", func(r *Request) { r.Operation = "" })
	broken := targetRequest("/v1/pods", "Pod", "ns", func(r *Request) { r.Name, r.Object = "", value.FromJSON(`{"metadata`) })
	requests := map[string]*Request{
		"pod": pod, "exec": exec, "resize": resize, "config": config, "deployment": deployment, "scale": scale, "node": node, "namespace": namespace,
		"update": update, "generated": generated, "nameless": nameless, "scanned": scanned, "broken": broken,
	}
	order := strings.Fields("pod exec resize config deployment scale node namespace update generated nameless scanned broken")
	core := func(resource, sub string) Target {
		return Target{Version: "v1", Resource: resource, Subresource: sub}
	}
	with := func(t Target, f func(*Target)) Target { f(&t); return t }
	kind := func(kind, sub string) Target { return Target{Group: "*", Version: "*", Kind: kind, Subresource: sub} }
	for _, c := range []struct {
		name   string
		target Target
		want   string // the requests that match; a question mark means an error
	}{
		{"pods", core("pods", ""), "pod update generated nameless? scanned broken"},
		{"pods/exec", core("pods", "exec"), "exec"},
		{"pods/*", core("pods", "*"), "pod exec resize update generated nameless? scanned broken"},
		{"*", core("*", ""), "pod config node namespace update generated nameless scanned broken"},
		{"*/*", core("*", "*"), "pod exec resize config node namespace update generated nameless scanned broken"},
		{"*/scale of all groups", Target{Group: "*", Version: "*", Resource: "*", Subresource: "scale"}, "scale"},
		{"everything", Target{Group: "*", Version: "*", Resource: "*", Subresource: "*"}, strings.Join(order, " ")},
		{"another version", Target{Version: "v2", Resource: "pods"}, ""},
		{"wildcards are names", Target{Version: "v*", Resource: "po*"}, ""},
		{"a kind is no resource", core("Pod", ""), "nameless?"},
		{"namespaced", with(core("*", ""), func(t *Target) { t.Scope = NamespacedScope }), "pod config update generated nameless scanned broken"},
		{"cluster", with(core("*", ""), func(t *Target) { t.Scope = ClusterScope }), "node namespace"},
		{"any scope", with(core("nodes", ""), func(t *Target) { t.Scope = AnyScope }), "node nameless?"},
		{"operation", with(core("pods", ""), func(t *Target) { t.Operations = []Operation{Update} }), "update"},
		{"a scan creates", with(core("pods", ""), func(t *Target) { t.Operations = []Operation{Create} }), "pod generated nameless? scanned broken"},
		{"name", with(core("pods", ""), func(t *Target) { t.Names = []string{"x"} }), "pod update nameless? scanned broken?"},
		{"names are no wildcards", with(core("pods", ""), func(t *Target) { t.Names = []string{"*", "x*"} }), "broken?"},
		{"generateName begins with the name", with(core("pods", ""), func(t *Target) { t.Names, t.GenerateNames = []string{"x"}, true }), "pod update generated nameless? scanned broken?"},
		{"labels of either object", with(core("pods", ""), func(t *Target) { t.MatchLabels = map[string]string{"app": "web"} }), "pod update nameless? scanned broken?"},
		{"namespaces", with(core("*", ""), func(t *Target) { t.Namespaces = []string{"x"} }), "namespace"},

		{"Pod", kind("Pod", ""), "pod resize update generated nameless scanned broken"},
		{"Pod/exec", kind("Pod", "exec"), "exec"},
		{"*/scale by kind", kind("*", "scale"), "scale"},
		{"group by wildcard", Target{Group: "a*", Version: "v?", Kind: "D*"}, "deployment"},
		{"name by wildcard", with(kind("Pod", ""), func(t *Target) { t.Names = []string{"x-*"} }), "generated broken?"},
		{"labels of the new object", with(kind("Pod", ""), func(t *Target) { t.MatchLabels = map[string]string{"a*": "web"} }), "pod resize nameless scanned broken?"},
	} {
		var got []string
		for _, name := range order {
			ok, err := c.target.Matches(requests[name])
			switch {
			case err != nil && ok:
				t.Errorf("%s: %s: matches with an error", c.name, name)
			case err != nil:
				got = append(got, name+"?")
			case ok:
				got = append(got, name)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(strings.Fields(c.want)) {
			t.Errorf("%s:\n got %v\nwant %v", c.name, got, strings.Fields(c.want))
		}
	}
}

func TestTargetTexts(t *testing.T) {
	for want, target := range map[string]Target{
		"Pod":                      {Group: "*", Version: "*", Kind: "Pod"},
		"v1/Pod/exec":              {Group: "*", Version: "v1", Kind: "Pod", Subresource: "exec"},
		"apps/v1/Deployment":       {Group: "apps", Version: "v1", Kind: "Deployment"},
		"/v1, Resource=pods":       {Version: "v1", Resource: "pods"},
		"apps/*, Resource=*/scale": {Group: "apps", Version: "*", Resource: "*", Subresource: "scale"},
	} {
		if got := target.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
