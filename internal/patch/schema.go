package patch

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed mergekeys.txt
var mergeKeysText string

// schema defines which lists below a value are merged by key. The nil schema has none. It contains only the paths to such lists.
type schema struct {
	fields map[string]*schema
	every  *schema // for the values of a map
	// The following fields are for lists.
	element *schema
	merged  bool     // merged, not replaced
	keys    []string // merge keys; none for a merged list of scalars
}

// schemaFor returns the schema of a built-in kind; nil for others. The table is parsed on first use.
func schemaFor(apiVersion, kind string) *schema {
	return kindSchemas()[apiVersion+"/"+kind]
}

var kindSchemas = sync.OnceValue(func() map[string]*schema { return parseMergeKeys(mergeKeysText) })

// parseMergeKeys parses the table; its first lines describe the format. Types refer to each other, and to themselves.
func parseMergeKeys(text string) map[string]*schema {
	types, kinds := map[string]*schema{}, map[string]*schema{}
	named := func(name string) *schema {
		if name == "" {
			return nil
		}
		if types[name] == nil {
			types[name] = &schema{}
		}
		return types[name]
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case strings.HasPrefix(words[0], "@"):
			kinds[words[0][1:]] = named(words[1])
		default:
			s := named(words[0])
			s.fields = make(map[string]*schema, len(words)-1)
			for _, w := range words[1:] {
				name, target, _ := strings.Cut(w, "=")
				switch {
				case strings.HasPrefix(target, "["):
					target, keys, merged := strings.Cut(target[1:], ",")
					list := &schema{element: named(target), merged: merged}
					if keys != "" {
						list.keys = strings.Split(keys, ",")
					}
					s.fields[name] = list
				case strings.HasPrefix(target, "{"):
					s.fields[name] = &schema{every: named(target[1:])}
				default:
					s.fields[name] = named(target)
				}
			}
		}
	}
	return kinds
}

// MergeKeys returns the keys by which a list in objects of a built-in kind is merged; none for lists that are replaced. known is false for
// other kinds. The empty name in a path stands for the elements of a list.
func MergeKeys(apiVersion, kind string, path ...string) (keys []string, merged, known bool) {
	s := schemaFor(apiVersion, kind)
	if s == nil {
		return nil, false, false
	}
	for _, name := range path {
		if name == "" {
			s = s.elements()
		} else {
			s = s.field(name)
		}
	}
	if s == nil {
		return nil, false, true
	}
	return s.keys, s.merged, true
}

// field returns the schema of the value under key.
func (s *schema) field(key string) *schema {
	if s == nil {
		return nil
	}
	if f := s.fields[key]; f != nil {
		return f
	}
	return s.every
}

func (s *schema) elements() *schema {
	if s == nil {
		return nil
	}
	return s.element
}

// schemaOf returns the schema for an object that has a kind.
func schemaOf(v any) *schema {
	m, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	kind, _ := m["kind"].(string)
	apiVersion, _ := m["apiVersion"].(string)
	if kind == "" || apiVersion == "" {
		return nil
	}
	return schemaFor(apiVersion, kind)
}
