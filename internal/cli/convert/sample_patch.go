package convert

import (
	"regexp"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/jsonpointer"
	"ephor.invalid/ephor/internal/value"
)

// patched adds the fields that patches name, for objects and for the templates of Pods.
func (s *sampler) patched(rules any) {
	list, _ := rules.([]any)
	for _, r := range list {
		rule, _ := r.(map[string]any)
		mutate, _ := rule["mutate"].(map[string]any)
		if mutate == nil {
			continue
		}
		s.patches = true
		template := s.reads.Member("spec").Member("template")
		roots := []*value.Fields{s.reads, template, s.reads.Member("spec").Member("jobTemplate").Member("spec").Member("template")}
		blocks, _ := mutate["foreach"].([]any)
		for _, b := range append(blocks, mutate) {
			block, _ := b.(map[string]any)
			s.patchScalars(block["patchStrategicMerge"])
			for _, root := range roots {
				patchFields(root, block["patchStrategicMerge"])
				operations, _ := block["patchesJson6902"].(string)
				for _, m := range pointers().FindAllStringSubmatch(operations, -1) {
					pointerFields(root, m[1])
				}
			}
		}
	}
}

// pointers matches the paths in JSON patches, in YAML and in JSON.
var pointers = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`"?(?:path|from)"?:\s*"?(/[^"\s,}]*(?:\{\{[^}]*\}\}[^"\s,}]*)*)`)
})

// patchFields adds the fields of a patch. List elements get a name and, like containers, an image.
func patchFields(f *value.Fields, patch any) {
	switch v := patch.(type) {
	case map[string]any:
		for k, e := range v {
			name := strings.TrimSuffix(strings.TrimLeft(k, "(+<=^X"), ")")
			if strings.Contains(name, "{{") {
				continue
			}
			patchFields(f.Member(name), e)
		}
	case []any:
		for _, e := range v {
			items := f.Items()
			if _, ok := e.(map[string]any); ok {
				items.Member("name")
				items.Member("image")
			}
			patchFields(items, e)
		}
	}
}

// patchScalars notes the types of the numbers and truth values of a patch.
func (s *sampler) patchScalars(patch any) {
	switch v := patch.(type) {
	case map[string]any:
		for k, e := range v {
			scalar := ""
			switch e.(type) {
			case bool:
				scalar = "boolean"
			case int64, float64:
				scalar = "integer"
			default:
				s.patchScalars(e)
				continue
			}
			if s.scalars == nil {
				s.scalars = map[string]string{}
			}
			s.scalars[strings.TrimSuffix(strings.TrimLeft(k, "(+<=^X"), ")")] = scalar
		}
	case []any:
		for _, e := range v {
			s.patchScalars(e)
		}
	}
}

// pointerFields adds the fields along a JSON pointer.
func pointerFields(f *value.Fields, pointer string) {
	for _, name := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		switch {
		case name == "-" || name == "*" || digits().MatchString(name) || strings.Contains(name, "{{"):
			f = f.Items()
			f.Member("name")
			f.Member("image")
		default:
			f = f.Member(jsonpointer.Unescape(name))
		}
	}
}
