package index

import (
	"testing"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

func resourceProgram(name string, targets ...policy.Target) *policy.Program {
	return &policy.Program{Name: name, Settings: policy.Settings{Admission: true, Background: true}, Rules: []*policy.Rule{
		{Name: "r", Stage: policy.StageValidate, Matching: policy.Matching{Targets: targets}},
	}}
}

func requestOf(kind, resource string) *policy.Request {
	r := podRequest("x", "ns", nil)
	r.GVK.Kind, r.GVR.Version, r.GVR.Resource = kind, "v1", resource
	return r
}

// A policy by resource is a candidate for that resource only, and does not affect which fields of other objects are decoded.
func TestIndexByResource(t *testing.T) {
	pods := resourceProgram("pods", policy.Target{Version: "v1", Resource: "pods"}) // reads everything
	byKind := resourceProgram("config", policy.Target{Group: "*", Version: "*", Kind: "ConfigMap"})
	byKind.Rules[0].Object = policy.ObjectReads(nil)
	scale := resourceProgram("scale", policy.Target{Group: "*", Version: "*", Resource: "*", Subresource: "scale"})
	both := resourceProgram("both", policy.Target{Version: "v1", Resource: "pods"}, policy.Target{Group: "*", Version: "*", Kind: "Pod"})
	x := New([]*policy.Program{pods, byKind, scale, both})
	nameless := requestOf("ConfigMap", "")
	for _, c := range []struct {
		r     *policy.Request
		want  string
		whole bool
	}{
		{requestOf("Pod", "pods"), "both pods", true},
		{requestOf("ConfigMap", "configmaps"), "config", false},
		{requestOf("Secret", "secrets"), "", false},
		{nameless, "both config pods", true}, // its resource is not known
	} {
		got := names(x.Lookup(c.r, policy.StageValidate))
		whole := x.Reads(c.r, Query{Stages: policy.StageValidate}) == nil
		if got != c.want || whole != c.whole {
			t.Errorf("%s %q: %q, decoded whole %v; want %q, %v", c.r.GVK.Kind, c.r.GVR.Resource, got, whole, c.want, c.whole)
		}
	}
	sub := requestOf("ConfigMap", "configmaps")
	sub.Subresource = "scale"
	if got := names(x.Lookup(sub, policy.StageValidate)); got != "scale" {
		t.Errorf("the subresource: %q", got)
	}
	other := requestOf("Pod", "pods")
	other.GVR.Group = "metrics.k8s.io"
	if got := names(x.Lookup(other, policy.StageValidate)); got != "both" {
		t.Errorf("a resource of that name in another group: %q", got)
	}
}

func TestIndexByResourceRestrictions(t *testing.T) {
	core := policy.Target{Version: "v1", Resource: "pods"}
	with := func(f func(*policy.Target)) policy.Target { t := core; f(&t); return t }
	named := with(func(t *policy.Target) { t.Names = []string{"x"} })
	programs := []*policy.Program{
		resourceProgram("cluster", with(func(t *policy.Target) { t.Scope = policy.ClusterScope })),
		resourceProgram("generated", with(func(t *policy.Target) { t.Names, t.GenerateNames = []string{"x"}, true })),
		resourceProgram("labelled", with(func(t *policy.Target) { t.MatchLabels = map[string]string{"app": "web"} })),
		resourceProgram("named", named),
		resourceProgram("namespaced", with(func(t *policy.Target) { t.Scope = policy.NamespacedScope })),
		resourceProgram("without", core),
		resourceProgram("without-x", core),
	}
	programs[5].Rules[0].Excludes = []policy.Target{{Group: "*", Version: "*", Resource: "pods"}}
	programs[6].Rules[0].Excludes = []policy.Target{named}
	x := New(programs)
	pod, other, unnamed, clustered := requestOf("Pod", "pods"), requestOf("Pod", "pods"), requestOf("Pod", "pods"), requestOf("Pod", "pods")
	other.Name = "y"
	unnamed.Name, unnamed.Object = "", value.Of(map[string]any{"metadata": map[string]any{"generateName": "x-"}})
	clustered.Namespace = ""
	changed, web := requestOf("Pod", "pods"), requestOf("Pod", "pods")
	changed.OldObject = value.Of(map[string]any{})
	web.Object = value.Of(map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}})
	odd := requestOf("Pod", "pods")
	odd.Object = value.Of(map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web", "odd": 1.0}}})
	for _, c := range []struct {
		name string
		r    *policy.Request
		want string
	}{
		{"x", pod, "generated named namespaced"},
		{"y", other, "namespaced without-x"},
		{"without a name", unnamed, "generated namespaced without-x"},
		{"without a namespace", clustered, "cluster generated named"},
		{"with the label", web, "generated labelled named namespaced"},
		{"with an old object, whose labels count too", changed, "generated labelled named namespaced"},
		{"with labels that cannot be read", odd, "generated labelled named namespaced without-x"},
	} {
		if got := names(x.Lookup(c.r, policy.StageValidate)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A change of a policy by resource renews the views of that resource, for every kind.
func TestIndexWithResource(t *testing.T) {
	x := New([]*policy.Program{literalProgram("a", "Pod", nil), literalProgram("b", "Service", nil), resourceProgram("d", policy.Target{Version: "v1", Resource: "nodes"})})
	pod, service, nameless := requestOf("Pod", "pods"), requestOf("Service", "services"), requestOf("Pod", "")
	for _, r := range []*policy.Request{pod, service, nameless} {
		x.Lookup(r, policy.StageValidate)
	}
	added := resourceProgram("c", policy.Target{Version: "v1", Resource: "pods"})
	next := x.With(nil, []*policy.Program{added})
	for _, c := range []struct {
		r    *policy.Request
		want string
	}{{pod, "a c"}, {service, "b"}, {nameless, "a c d"}} {
		if got := names(next.Lookup(c.r, policy.StageValidate)); got != c.want {
			t.Errorf("%s: %q, want %q", c.r.GVK.Kind, got, c.want)
		}
	}
	if next.bucketFor(service) != x.bucketFor(service) {
		t.Error("the views of another resource were not kept")
	}
	if got := names(next.With([]*policy.Program{added}, nil).Lookup(pod, policy.StageValidate)); got != "a" {
		t.Errorf("after it was removed: %q", got)
	}
}
