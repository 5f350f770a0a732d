package rule_test

import (
	"testing"

	"ephor.invalid/ephor/internal/value"
)

// BenchmarkGenerate measures a generate rule at admission, where it only reports that there is work, and with a plan, as for the command
// line and the worker.
func BenchmarkGenerate(b *testing.B) {
	r := compileRule(b, []byte(`
name: r
match: {any: [{resources: {kinds: [Namespace]}}]}
generate:
  apiVersion: v1
  kind: ResourceQuota
  name: "quota-{{ request.object.metadata.name }}"
  namespace: "{{ request.object.metadata.name }}"
  synchronize: true
  data: {spec: {hard: {requests.cpu: "4", requests.memory: 16Gi, pods: "{{ request.object.metadata.labels.pods }}"}}}
`), nil)
	in := map[string]any{"object": map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": "a", "uid": "u", "labels": map[string]any{"pods": "10"}}}}
	req := request(in)
	req.Object = value.Of(in["object"])
	for _, plan := range []bool{false, true} {
		name := "admission"
		if plan {
			name = "plan"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s := call(req, r)
				s.Plan = plan
				if y := r.Eval(s); len(y.Work) != 1 || y.Work[0].Err != nil {
					b.Fatalf("%+v", y)
				}
			}
		})
	}
}
