package cli

import (
	"path/filepath"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/discovery"
	"github.com/ephor-dev/ephor/internal/source"
)

// customKinds are the CustomResourceDefinitions of one run.
type customKinds struct {
	objects []map[string]any
	scopes  source.Scopes
	names   discovery.Offline
}

// readDefinitions reads files of CustomResourceDefinitions; other objects in them are passed over.
func readDefinitions(paths []string) (customKinds, diag.List) {
	out := customKinds{scopes: source.Scopes{}}
	var diags diag.List
	for _, p := range paths {
		if ext := filepath.Ext(p); ext != ".yaml" && ext != ".yml" {
			diags.Add(diag.Diagnostic{Pos: diag.Position{File: p}, Summary: "a file of definitions ends in .yaml or .yml"})
			continue
		}
		objects, more := source.Load([]string{p}, source.Options{Numbers: source.Floats})
		diags.Add(more...)
		for _, o := range objects {
			out.objects = append(out.objects, o.Value)
			out.scopes.AddDefinition(o.Value)
			out.names.Define(o.Value)
		}
	}
	return out, diags
}
