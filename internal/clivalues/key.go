package clivalues

import (
	"fmt"
	"sort"
	"strings"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/value"
)

// tree builds nested maps from values whose keys are variable names: {"cm.data.a": 1} becomes {"cm": {"data": {"a": 1}}}.
// Overlapping keys are merged; if two keys set the same place, the longer key wins.
func tree(values map[string]any) map[string]any {
	keys := make([]string, 0, len(values))
	for k := range values {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool {
		if len(keys[i]) != len(keys[j]) {
			return len(keys[i]) < len(keys[j])
		}
		return keys[i] < keys[j]
	})
	var out any = map[string]any{}
	for _, k := range keys {
		v := values[k]
		path := split(k)
		for i := len(path) - 1; i >= 0; i-- {
			v = map[string]any{path[i]: v}
		}
		out = value.Merge(out, v)
	}
	return out.(map[string]any)
}

// split splits a variable name at its dots; a part in double quotes may contain dots.
func split(key string) []string {
	var out []string
	var part strings.Builder
	quoted := false
	for _, r := range key {
		switch {
		case r == '"':
			quoted = !quoted
		case r == '.' && !quoted:
			out = append(out, part.String())
			part.Reset()
		default:
			part.WriteRune(r)
		}
	}
	return append(out, part.String())
}

// ParseAssignments parses the values of --set: k=v, several separated by commas. As Kyverno does, it ignores, with a warning, a
// text that is not such a pair, has an empty key or value, would change the object, or repeats a key.
func ParseAssignments(list []string) (map[string]any, diag.List) {
	out := map[string]any{}
	var diags diag.List
	pass := func(pair, why, hint string) {
		diags.Add(diag.Diagnostic{Severity: diag.Warning, Summary: fmt.Sprintf("--set: %q %s", strings.TrimSpace(pair), why), Hint: hint})
	}
	for _, text := range list {
		for _, pair := range strings.Split(text, ",") {
			parts := strings.Split(strings.TrimSpace(pair), "=")
			if strings.TrimSpace(pair) == "" {
				continue
			}
			if len(parts) != 2 {
				pass(pair, "is not name=value", "it is passed over: write --set NAME=VALUE")
				continue
			}
			k, v := strings.TrimSpace(parts[0]), strings.TrimSpace(parts[1])
			switch _, again := out[k]; {
			case k == "" || v == "":
				pass(pair, "is not name=value", "it is passed over: write --set NAME=VALUE")
			case again:
				pass(pair, "names a variable again", "it is passed over")
			case strings.Contains(k, "request.object."):
				pass(pair, "would change the object", "it is passed over: change the resource instead")
			default:
				out[k] = v
			}
		}
	}
	return out, diags
}
