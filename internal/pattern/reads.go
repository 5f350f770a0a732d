package pattern

import (
	"strings"

	"ephor.invalid/ephor/internal/value"
)

// Reads adds to resource the fields that the raw pattern v may read in a resource. Below a wildcard, a variable or a
// reference, that is everything.
func Reads(v any, resource *value.Fields) {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			if strings.ContainsAny(key, vague) {
				resource.ReadAll()
				return
			}
		}
		for key, below := range v {
			_, bare := parseKey(key)
			Reads(below, resource.Member(bare))
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for _, item := range v {
			Reads(item, resource.Items())
		}
		if len(v) > 0 {
			return
		}
	}
	resource.ReadAll()
}

// vague are the characters that begin wildcards, variables and references.
const vague = "*?{$"
