package load

import (
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/source"
)

// CustomKinds holds the CustomResourceDefinitions of one run.
type CustomKinds struct {
	Objects []map[string]any
	Scopes  source.Scopes
	Names   discovery.Offline
}

// Definitions reads CustomResourceDefinitions from files and skips other objects.
func Definitions(paths []string) (CustomKinds, diag.List) {
	out := CustomKinds{Scopes: source.Scopes{}}
	var diags diag.List
	for _, p := range paths {
		if !source.IsYAML(p) {
			diags.Add(diag.Diagnostic{Pos: diag.Position{File: p}, Summary: "a file of definitions ends in .yaml or .yml"})
			continue
		}
		objects, moreDiags := source.Load([]string{p}, source.Options{Numbers: source.Floats})
		diags.Add(moreDiags...)
		for _, o := range objects {
			out.Objects = append(out.Objects, o.Value)
			out.Scopes.AddDefinition(o.Value)
			out.Names.Define(o.Value)
		}
	}
	return out, diags
}
