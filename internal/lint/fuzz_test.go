package lint

import (
	"testing"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/value"

	"sigs.k8s.io/yaml"
)

// FuzzPolicy tests that no policy, however broken, makes a check panic.
func FuzzPolicy(f *testing.F) {
	for _, c := range checks {
		b, err := yaml.YAMLToJSON([]byte(c.Example))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"apiVersion":"kyverno.io/v1","kind":"ClusterPolicy","metadata":{"name":"p"},"spec":{"rules":[{"name":"r","match":{"any":[{"resources":{"kinds":["*/*","/"]}}]},"context":[{"name":"x","variable":{"jmesPath":"{{ a"}}],"validate":{"pattern":{"()":[[]]}}}]}}`))
	kinds := schema.New()
	f.Fuzz(func(_ *testing.T, b []byte) {
		v, err := value.DecodeJSON(b)
		if err != nil {
			return
		}
		if o, ok := v.(map[string]any); ok {
			Policy(compile.Object{Value: o}, Options{Kinds: kinds})
		}
	})
}
