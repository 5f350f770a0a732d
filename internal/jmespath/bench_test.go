package jmespath

import (
	"os"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/value"
)

func BenchmarkSearch(b *testing.B) {
	raw, err := os.ReadFile("../value/testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	pod, err := value.DecodeJSON(raw)
	if err != nil {
		b.Fatal(err)
	}
	root := &lazyBench{fields: map[string]any{"request": map[string]any{"object": pod, "operation": "CREATE"}}}
	for _, c := range []struct{ name, expression string }{
		{"field", "request.object.metadata.name"},
		{"default", "request.object.metadata.annotations.missing || ''"},
		{"operation", "request.operation || 'BACKGROUND'"},
		{"capabilities", "request.object.spec.[ephemeralContainers, initContainers, containers][].securityContext.capabilities.add[]"},
		{"volume-types", "request.object.spec.volumes[].keys(@)[] || ''"},
		{"filter", "request.object.spec.containers[?securityContext.runAsNonRoot == `true`].name"},
		{"length", "length(request.object.spec.containers || `[]`)"},
		{"regex", "regex_match('^[a-z0-9./:-]+$', request.object.spec.containers[0].image)"},
		{"object", "request.object"},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := MustCompile(c.expression)
			env := &Env{Meter: &budget.Meter{}}
			b.ReportAllocs()
			for b.Loop() {
				env.Meter.Reset(b.Context(), budget.DefaultSteps, budget.DefaultBytes)
				if _, err := e.Search(env, root); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile("request.object.spec.[ephemeralContainers, initContainers, containers][].securityContext.capabilities.add[] || `[]`"); err != nil {
			b.Fatal(err)
		}
	}
}

type lazyBench struct{ fields map[string]any }

func (r *lazyBench) Field(name string) (any, bool, error) {
	v, ok := r.fields[name]
	return v, ok, nil
}

func (r *lazyBench) Value() (any, error) { return r.fields, nil }
