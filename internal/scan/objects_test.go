package scan

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/value"
)

var pods = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

// The hash covers labels, annotations, and everything except kind, metadata and status.
func TestContentHash(t *testing.T) {
	const pod = `{"kind": "Pod", "metadata": {"name": "p", "resourceVersion": "1", "labels": {"a": "b"}}, "spec": {"x": 1}, "status": {"phase": "Running"}}`
	hash := func(text string) uint64 {
		t.Helper()
		i, err := itemOf(text, pods)
		if err != nil {
			t.Fatal(err)
		}
		return i.hash
	}
	for name, c := range map[string]struct {
		old, new string
		same     bool
	}{
		"kind":             {`"kind": "Pod", `, ``, true},
		"status":           {`{"phase": "Running"}`, `null`, true},
		"version":          {`"resourceVersion": "1"`, `"resourceVersion": "2"`, true},
		"managed":          {`"name": "p"`, `"name": "p", "managedFields": ["x"]`, true},
		"label":            {`"a": "b"`, `"a": "c"`, false},
		"annotations":      {`"labels"`, `"annotations"`, false},
		"spec":             {`"x": 1`, `"x": 2`, false},
		"another member":   {`"spec"`, `"data": {}, "spec"`, false},
		"a renamed member": {`"spec"`, `"data"`, false},
	} {
		changed := strings.Replace(pod, c.old, c.new, 1)
		if changed == pod {
			t.Fatalf("%s: nothing changes", name)
		}
		if got := hash(changed) == hash(pod); got != c.same {
			t.Errorf("%s: the same content is %v, want %v", name, got, c.same)
		}
	}
}

// Objects of a list have the kind that the API server leaves out, and only the fields that are read.
func TestPageOf(t *testing.T) {
	const (
		list = `{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": "x", "remainingItemCount": 2}, "items": [%], "more": 1}`
		pod  = `{"metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 3, "managedFields": [{}]}, "spec": {"a": [1.5, "\u00e9"], "b": {}}}`
	)
	spec := &value.Fields{}
	spec.Member("spec").Member("a").ReadAll()
	for name, c := range map[string]struct {
		text   string
		kind   schema.GroupVersionKind
		fields *value.Fields
		want   string // the decoded object
	}{
		"without a kind":      {pod, pods, nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"generation":3,"managedFields":[{}],"name":"p","namespace":"n","uid":"u"},"spec":{"a":[1.5,"é"],"b":{}}}`},
		"some fields":         {pod, pods, spec, `{"spec":{"a":[1.5,"é"]}}`},
		"with a kind":         {`{"apiVersion": "x/v1", "kind": "X"}`, pods, nil, `{"apiVersion":"x/v1","kind":"X"}`},
		"an empty object":     {`{ }`, schema.GroupVersionKind{Group: "x", Version: "v1", Kind: "X"}, nil, `{"apiVersion":"x/v1","kind":"X"}`},
		"labels without text": {`{"kind": "X", "metadata": {"labels": null}}`, pods, nil, `{"kind":"X","metadata":{"labels":null}}`},
	} {
		p, err := pageOf(strings.Replace(list, "%", c.text, 1), c.kind)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p.version != "7" || p.next != "x" || len(p.items) != 1 {
			t.Fatalf("%s: %+v", name, p)
		}
		doc, err := p.items[0].decode(c.fields)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		v, _ := doc.Value()
		if got := value.JSON(v); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	p, err := pageOf(strings.Replace(list, "%", pod+","+pod, 1), pods)
	if err != nil {
		t.Fatal(err)
	}
	if i := p.items[1]; len(p.items) != 2 || i.name != "p" || i.namespace != "n" || i.uid != "u" || i.hash != p.items[0].hash {
		t.Errorf("two objects: %+v", i)
	}
	if want := metaHash("", 3, nil, nil); p.items[1].meta != want {
		t.Errorf("the hash of the metadata is %d, want %d", p.items[1].meta, want)
	}
	for name, text := range map[string]string{
		"cut": list[:20], "not an object": `[]`, "more text": strings.Replace(list, "%", "", 1) + "{}", "items": `{"items": {}}`,
		"an item": strings.Replace(list, "%", "1", 1), "a name": strings.Replace(list, "%", `{"metadata": {"name": 1}}`, 1),
		"a label": strings.Replace(list, "%", `{"metadata": {"labels": {"a": 1}}}`, 1),
	} {
		if _, err := pageOf(text, pods); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestPath(t *testing.T) {
	for want, got := range map[string][]string{
		"api/v1/pods":                             path(Resource{pods.GroupVersion().WithResource("pods"), "Pod"}, "", ""),
		"api/v1/namespaces/n/pods/p":              path(Resource{pods.GroupVersion().WithResource("pods"), "Pod"}, "n", "p"),
		"apis/apps/v1/namespaces/n/replicasets/r": path(Resource{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, "ReplicaSet"}, "n", "r"),
		"api/v1/nodes/a":                          path(Resource{pods.GroupVersion().WithResource("nodes"), "Node"}, "", "a"),
	} {
		if strings.Join(got, "/") != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
