package celpolicy

import (
	"maps"
	"slices"
	"strconv"

	"github.com/ephor-dev/ephor/internal/budget"
)

// Template is a template of Pods inside of an object, as a Pod.
type Template struct {
	// Path is where it is.
	Path string
	Pod  map[string]any
}

// Templates finds the templates of Pods in the spec of an object, in the order of their paths: parts with a list of containers of which
// each has a name and an image. A Pod has the name and the namespace of the object where its template has none.
func Templates(m *budget.Meter, object map[string]any) ([]Template, error) {
	if err := m.Walk(object["spec"]); err != nil {
		return nil, err
	}
	var out []Template
	findTemplates(object["spec"], "spec", &out)
	parent, _ := object["metadata"].(map[string]any)
	for i := range out {
		metadata, _ := out[i].Pod["metadata"].(map[string]any)
		metadata = maps.Clone(metadata)
		if metadata == nil {
			metadata = map[string]any{}
		}
		for _, field := range []string{"name", "namespace"} {
			if text, _ := metadata[field].(string); text == "" && parent[field] != nil {
				metadata[field] = parent[field]
			}
		}
		out[i].Pod = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": out[i].Pod["spec"]}
	}
	return out, nil
}

func findTemplates(v any, path string, out *[]Template) {
	switch x := v.(type) {
	case map[string]any:
		if spec, ok := x["spec"].(map[string]any); ok && areContainers(spec["containers"]) {
			*out = append(*out, Template{Path: path, Pod: x})
			return
		}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			findTemplates(x[k], path+"."+k, out)
		}
	case []any:
		for i, e := range x {
			findTemplates(e, path+"["+strconv.Itoa(i)+"]", out)
		}
	}
}

func areContainers(v any) bool {
	list, _ := v.([]any)
	for _, e := range list {
		c, _ := e.(map[string]any)
		_, named := c["name"].(string)
		_, has := c["image"].(string)
		if !named || !has {
			return false
		}
	}
	return len(list) > 0
}
