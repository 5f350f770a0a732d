package classic

import (
	"maps"
	"slices"
	"strconv"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// contexts checks that the context entries of a cluster-wide policy specify the namespace of each ConfigMap. A stored policy without the
// namespace still reads from `default`.
func (c *checker) contexts(r *kyvernov1.Rule, path string) {
	if namespaced(c.policy) {
		return
	}
	tree, err := ruleTree(r)
	if err != nil {
		return // the method variables reports the error
	}
	c.configMaps(tree, path)
}

// HoldsObject reports whether a field of a rule holds a resource, or a part of one. Below it, names such as `context`, `list`, `jmesPath` and
// `operator` are ordinary fields.
func HoldsObject(field string) bool {
	switch field {
	case "pattern", "anyPattern", "patchStrategicMerge", "data", "value":
		return true
	}
	return false
}

func (c *checker) configMaps(v any, path string) {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			c.configMaps(e, path+"["+strconv.Itoa(i)+"]")
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := path + "." + key
			entries, ok := v[key].([]any)
			if HoldsObject(key) {
				continue
			}
			if key != "context" || !ok {
				c.configMaps(v[key], at)
				continue
			}
			for i, e := range entries {
				entry, _ := e.(map[string]any)
				ref, ok := entry["configMap"].(map[string]any)
				if name, _ := ref["name"].(string); !ok || name == "" {
					continue // a missing name is reported already
				}
				if namespace, _ := ref["namespace"].(string); namespace == "" {
					c.diags.Errorf(at+"["+strconv.Itoa(i)+"].configMap.namespace", "a namespace is required for configMap context entry")
					c.diags.Hint("name the namespace of the ConfigMap; it may be a variable, such as {{ request.namespace }}")
				}
			}
		}
	}
}
