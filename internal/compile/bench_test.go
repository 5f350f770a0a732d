package compile_test

import (
	"testing"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/source"
)

// BenchmarkCompile compiles the policies of examples/pod-security, autogen included, as the catalog does when they are stored, and the
// command line at its start.
func BenchmarkCompile(b *testing.B) {
	loaded, diags := source.Load([]string{"../../examples/pod-security"}, source.Options{})
	if diags.HasErrors() || len(loaded) == 0 {
		b.Fatal(diags)
	}
	var objects []compile.Object
	for _, o := range loaded {
		if compile.Owns(o.Value["apiVersion"].(string), o.Kind()) {
			objects = append(objects, compile.Object{Value: o.Value, Pos: o.Pos})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if programs, diags := compile.Compile(objects); diags.HasErrors() || len(programs) == 0 {
			b.Fatal(diags)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(objects)), "µs/policy")
}
