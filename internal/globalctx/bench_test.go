package globalctx

import (
	"fmt"
	"testing"

	"ephor.invalid/ephor/internal/globalentry"
)

// BenchmarkRead reads 10,000 resources: all of them, a projection, and both after one resource has changed.
func BenchmarkRead(b *testing.B) {
	w, _, _ := newWatched(1 << 30)
	list := make([]object, 10_000)
	for i := range list {
		list[i] = w.object(resource("ns", fmt.Sprintf("name-%05d", i)))
	}
	if err := w.replace(list); err != nil {
		b.Fatal(err)
	}
	e, diags := globalentry.Compile(map[string]any{
		"apiVersion": "kyverno.io/v2", "kind": "GlobalContextEntry", "metadata": map[string]any{"name": "e"},
		"spec": map[string]any{
			"kubernetesResource": map[string]any{"version": "v1", "resource": "pods"},
			"projections":        []any{map[string]any{"name": "names", "jmesPath": "[].metadata.name"}},
		},
	})
	if diags.HasErrors() {
		b.Fatal(diags)
	}
	for _, projection := range []string{"", "names"} {
		for _, changing := range []bool{false, true} {
			b.Run(fmt.Sprintf("projection=%q/changing=%v", projection, changing), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if changing {
						if err := w.update(w.object(resource("ns", "name-05000"))); err != nil {
							b.Fatal(err)
						}
					}
					if _, err := w.data().read(b.Context(), e, projection); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
