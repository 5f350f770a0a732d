package compile_test

import (
	"context"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
)

// FuzzPolicy tests that decoding, checking, compiling and evaluating any policy neither panics nor exceeds its budget.
func FuzzPolicy(f *testing.F) {
	loaded, diags := source.Load([]string{"../../examples/pod-security"}, source.Options{})
	if diags.HasErrors() {
		f.Fatal(diags)
	}
	for _, o := range loaded {
		f.Add(value.JSON(o.Value))
	}
	f.Add(`{"apiVersion":"kyverno.io/v1","kind":"Policy","metadata":{"name":"p"},"spec":{"rules":[{"name":"r","match":{"any":[{"resources":{"kinds":["*"]}}]},
		"context":[{"name":"v","variable":{"jmesPath":"{{ request }}"}}],"validate":{"message":"{{ {{v}} }}","foreach":[{"list":"request.object.*","foreach":[{"list":"element.*","deny":{"conditions":[{"key":"{{ element1 }}","operator":"In","value":"{{ v }}"}]}}]}]}}]}}`)
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a", "namespace": "d"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i:1"}, nil, "text", 1.5}}}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := value.DecodeJSON([]byte(text))
		object, ok := v.(map[string]any)
		if err != nil || !ok {
			return
		}
		program, diags := compile.One(compile.Object{Value: object})
		if program == nil {
			if !diags.HasErrors() {
				t.Fatal("neither a Program nor an error")
			}
			return
		}
		req := created(pod)
		for _, r := range program.Rules {
			if ok, err := r.Match(context.Background(), req); !ok || err != nil {
				continue
			}
			env := &evalenv.Env{Meter: budget.New(context.Background(), 100_000, 1<<20)}
			if y := r.Eval(&policy.Call{Env: env, Request: req, Program: program, Rule: r}); y.Status == policy.StatusError && y.Message == "" {
				t.Errorf("rule %s: an error without words", r.Name)
			}
		}
	})
}
