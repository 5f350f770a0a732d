package convert

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/value"
)

// ofNamespace matches what a rule reads of the metadata of an object that it looks up.
var ofNamespace = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`metadata\.(labels|annotations)\.(?:"([^"]+)"|(\w+))`)
})

// spaces returns the namespaces of the objects, if the policy looks up any: that of a request always exists. What the policy reads of them is set
// in some; labels has the labels of all of them.
func (s *sampler) spaces(original map[string]any, labels map[string]map[string]string, given []map[string]any) (out []map[string]any) {
	source := strings.ReplaceAll(value.JSON(original["spec"]), `\"`, `"`)
	if !strings.Contains(source, "/api/v1/namespaces") {
		return nil
	}
	known := map[string]bool{}
	for _, o := range given {
		known[identity(o)] = true
	}
	for i, name := range slices.Sorted(maps.Keys(labels)) {
		annotations := map[string]any{}
		for j, m := range ofNamespace().FindAllStringSubmatch(source, -1) {
			key := m[2] + m[3]
			switch word := s.words[(i+j)%len(s.words)]; {
			case (i+j)%3 == 0:
			case m[1] == "annotations":
				annotations[key] = word
			case labels[name][key] == "":
				labels[name][key] = word
			}
		}
		marks := map[string]any{}
		for k, v := range labels[name] {
			marks[k] = v
		}
		o := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": marks, "annotations": annotations}}
		if !known[identity(o)] {
			out = append(out, o)
		}
	}
	return out
}
