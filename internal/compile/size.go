package compile

import (
	"maps"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// maxPaths bounds the total length of the paths of all fields of a policy. Compilers store a path for each part, so a few kilobytes of
// long, deeply nested keys would need gigabytes. The largest public policies have some 100 kB.
const maxPaths = 16 << 20

// pathBytes returns the length of the paths of all fields below v, whose own path has the length at; it stops above limit.
func pathBytes(v any, at, limit int) int {
	sum := at
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if sum += pathBytes(x, at+len(k)+1, limit-sum); sum > limit {
				break
			}
		}
	case []any:
		for _, x := range v {
			if sum += pathBytes(x, at+3, limit-sum); sum > limit {
				break
			}
		}
	}
	return sum
}

// isLarge reports whether a policy is too large to be compiled.
func isLarge(o Object) bool { return pathBytes(o.Value["spec"], 0, maxPaths) > maxPaths }

// tooLarge returns the Program of a policy that is too large to compile: it has a name and a mistake, and no rules.
func tooLarge(f *family.Family, object map[string]any) *policy.Program {
	bare := maps.Clone(object)
	bare["spec"] = map[string]any{}
	program := f.Compile(family.Source{Object: bare})
	program.Diags = diag.List{}
	program.Diags.Errorf("spec", "the policy is too large: the paths of its fields have more than %d bytes together", maxPaths)
	return program
}
