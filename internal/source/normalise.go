package source

// Normalise makes a resource what the reference command line makes of it before it is judged: the namespace is
// `default` where a namespaced object names none, and null maps are empty ones. The object is changed in place; it must
// not have been shown to anyone yet.
//
// Kinds outside the API of Kubernetes itself count as namespaced, since nothing here says otherwise.
func Normalise(o map[string]any) {
	emptyMaps(o)
	meta, ok := o["metadata"].(map[string]any)
	if !ok {
		if o["metadata"] != nil {
			return // not an object: the policies will say so
		}
		meta = map[string]any{}
		o["metadata"] = meta
	}
	if ns, _ := meta["namespace"].(string); ns == "" && (meta["namespace"] == nil || meta["namespace"] == "") {
		apiVersion, _ := o["apiVersion"].(string)
		kind, _ := o["kind"].(string)
		if !ClusterScoped(apiVersion, kind) {
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
