package source

import (
	"strings"
)

// Normalise changes a resource as Kyverno's command line does before it evaluates it: a namespaced object without a
// namespace gets `default`, and null maps become empty ones. It changes the object in place; other code must not have
// seen the object yet.
//
// Kinds outside the API of Kubernetes itself count as namespaced, unless Scopes contains them.
func Normalise(o map[string]any) { Scopes(nil).Normalise(o) }

// Scopes are additional cluster-scoped kinds, as `group/Kind`. The nil Scopes is empty.
type Scopes map[string]bool

// AddDefinition adds the kind that a CustomResourceDefinition defines, if it is cluster-scoped. It ignores other
// objects.
func (s Scopes) AddDefinition(o map[string]any) {
	spec, _ := o["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	group, _ := spec["group"].(string)
	kind, _ := names["kind"].(string)
	if o["kind"] == "CustomResourceDefinition" && spec["scope"] == "Cluster" {
		s[group+"/"+kind] = true
	}
}

// Normalise is the function Normalise with these kinds known.
func (s Scopes) Normalise(o map[string]any) {
	emptyMaps(o)
	meta, ok := o["metadata"].(map[string]any)
	if !ok {
		if o["metadata"] != nil {
			return // not an object: the policies will report that
		}
		meta = map[string]any{}
		o["metadata"] = meta
	}
	if ns, _ := meta["namespace"].(string); ns == "" && (meta["namespace"] == nil || meta["namespace"] == "") {
		apiVersion, _ := o["apiVersion"].(string)
		kind, _ := o["kind"].(string)
		group, _, _ := strings.Cut(apiVersion, "/")
		if !ClusterScoped(apiVersion, kind) && !s[group+"/"+kind] {
			meta["namespace"] = "default"
		}
	}
}

// emptyMaps turns the nulls that people write for `no entries` into empty maps, at any depth.
func emptyMaps(v any) {
	switch x := v.(type) {
	case map[string]any:
		for k, c := range x {
			switch c.(type) {
			case map[string]any, []any:
				emptyMaps(c)
			case nil:
				switch k {
				case "annotations", "labels", "matchLabels", "nodeSelector", "data", "stringData":
					x[k] = map[string]any{}
				}
			}
		}
	case []any:
		for _, c := range x {
			switch c.(type) {
			case map[string]any, []any:
				emptyMaps(c)
			}
		}
	}
}
