package pattern

import (
	"strings"

	"github.com/ephor-dev/ephor/internal/value"
)

// Reads adds to resource what the raw pattern v may look at in a resource that it is matched against. When in doubt, where
// a wildcard, a variable or a reference stands, that is everything below.
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

// vague are the letters of wildcards, variables and references.
const vague = "*?{$"
