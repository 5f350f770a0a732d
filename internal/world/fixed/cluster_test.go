package fixed

import (
	"errors"
	"testing"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/apipath"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

const given = `
- {apiVersion: v1, kind: Namespace, metadata: {name: a}}
- {apiVersion: v1, kind: Pod, metadata: {name: x, namespace: a, labels: {app: web}}, spec: first}
- {apiVersion: v1, kind: Pod, metadata: {name: x, namespace: a}, spec: second}
- {apiVersion: v1, kind: Pod, metadata: {name: "y", namespace: b}}
- {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: n, namespace: a}}
- {apiVersion: example.com/v1, kind: Mouse, metadata: {name: m, namespace: default}}
- {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: mice.example.com}, spec: {group: example.com, names: {kind: Mouse, plural: mice}}}
- {apiVersion: kyverno.io/v2, kind: GlobalContextEntry, metadata: {name: pods}, spec: {kubernetesResource: {version: v1, resource: pods, namespace: a}, projections: [{name: names, jmesPath: "[].metadata.name"}]}}
- {apiVersion: kyverno.io/v2alpha1, kind: GlobalContextEntry, metadata: {name: call}, spec: {apiCall: {urlPath: /api/v1/pods}}}
- {apiVersion: kyverno.io/v2, kind: GlobalContextEntry, metadata: {name: odd}, spec: {nope: {}}}
`

func madeUp(t *testing.T) (root world.Root, reads *int) {
	t.Helper()
	reads = new(int)
	return New(Values{Objects: func() ([]map[string]any, error) {
		*reads++
		var out []map[string]any
		return out, yaml.Unmarshal([]byte(given), &out)
	}}), reads
}

func TestCluster(t *testing.T) {
	root, reads := madeUp(t)
	w := root.For(world.Cluster())
	if *reads != 0 {
		t.Error("read before it was asked")
	}
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"},"name":"x","namespace":"a"},"spec":"first"}`
	list := func(apiVersion, kind, items string) string {
		return `{"apiVersion":"` + apiVersion + `","items":[` + items + `],"kind":"` + kind + `","metadata":{"resourceVersion":""}}`
	}
	for path, want := range map[string]string{
		"/api/v1/namespaces/a/pods/x":                                    pod,
		"/api/v1/namespaces/a":                                           `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`,
		"/api/v1/namespaces/a/pods":                                      list("v1", "PodList", pod),
		"/api/v1/pods?labelSelector=app":                                 list("v1", "PodList", pod),
		"/api/v1/pods?fieldSelector=metadata.name=z":                     list("v1", "PodList", ""),
		"/apis/example.com/v1/mice/m":                                    `{"apiVersion":"example.com/v1","kind":"Mouse","metadata":{"name":"m","namespace":"default"}}`,
		"/apis/apps/v1/deployments":                                      list("apps/v1", "List", ""),
		"/api/v1/namespaces/b/pods/x":                                    `error: pods "x" not found among the given resources`,
		"/apis/networking.k8s.io/v1/namespaces/a/networkpolicies/other":  `error: networkpolicies.networking.k8s.io "other" not found among the given resources`,
		"/apis/networking.k8s.io/v1beta1/namespaces/a/networkpolicies/n": `error: networkpolicies.networking.k8s.io "n" not found among the given resources`,
		"/version":                             `error: without a cluster only the given resources can be read: not available here`,
		"/api/v1/namespaces/a/pods/x/log":      `error: without a cluster only the given resources can be read: not available here`,
		"/api/v1/pods?fieldSelector=spec.a=b":  `error: "spec.a" is not a known field selector: only metadata.name and metadata.namespace are`,
		"/api/v1/pods?labelSelector=%28broken": `error: found '('`,
	} {
		p, err := apipath.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		v, err := w.API(t.Context(), world.APIRequest{Method: world.GET, Path: p})
		got := value.JSON(v)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want && !(err != nil && len(want) < len(got) && got[:len(want)] == want) {
			t.Errorf("%s:\n got %s\nwant %s", path, got, want)
		}
	}
	if *reads != 1 {
		t.Errorf("read %d times", *reads)
	}
	p, _ := apipath.Parse("/api/v1/pods")
	if _, err := w.API(t.Context(), world.APIRequest{Method: world.POST, Path: p}); !errors.Is(err, world.ErrUnavailable) {
		t.Errorf("POST: %v", err)
	}
	if got, err := w.Lists(t.Context(), world.Query{APIVersion: "v1", Kind: "Pod", Selector: "app=web"}); err != nil || len(got) != 1 {
		t.Errorf("list: %v, %v", got, err)
	}
}

// Global data come from the other resources, and only for cluster-scoped policies.
func TestClusterGlobals(t *testing.T) {
	root, _ := madeUp(t)
	w := root.For(world.Cluster())
	for name, want := range map[string]string{
		"pods":       `[{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"},"name":"x","namespace":"a"},"spec":"first"}]`,
		"pods.names": `["x"]`,
		"pods.other": `error: the GlobalContextEntry pods has no projection other`,
		"call":       `error: the GlobalContextEntry call asks an API, which is not there`,
		"nope":       `error: there is no GlobalContextEntry "nope" among the given resources`,
	} {
		v, err := w.Globals(t.Context(), world.GlobalRequest(name))
		got := value.JSON(v)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if _, err := w.Globals(t.Context(), "odd"); err == nil {
		t.Error("an entry with an unknown field was taken")
	}
	if w := root.For(world.InNamespace("a")); w.Globals != nil || w.Services != nil {
		t.Error("a namespaced policy reads global data")
	}
}

func TestClusterReach(t *testing.T) {
	root, _ := madeUp(t)
	w := root.For(world.InNamespace("a"))
	var out *world.OutOfReachError
	if _, err := w.Objects.Get(t.Context(), "v1", "Pod", "b", "y"); !errors.As(err, &out) {
		t.Errorf("another namespace: %v", err)
	}
	if _, err := w.Lists(t.Context(), world.Query{APIVersion: "v1", Kind: "Pod"}); !errors.As(err, &out) {
		t.Errorf("all namespaces: %v", err)
	}
	if got, err := w.Objects.Get(t.Context(), "v1", "Pod", "a", "x"); err != nil || got["spec"] != "first" {
		t.Errorf("own namespace: %v, %v", got, err)
	}
	p, _ := apipath.Parse("/api/v1/namespaces/b/pods/y")
	var far *world.PathError
	if _, err := w.API(t.Context(), world.APIRequest{Method: world.GET, Path: p}); !errors.As(err, &far) {
		t.Errorf("path of another namespace: %v", err)
	}
	if w := New(Values{}).For(world.Cluster()); w.Objects != nil || w.API != nil || w.Globals != nil || w.Lists != nil {
		t.Error("without objects there is no cluster")
	}
}
