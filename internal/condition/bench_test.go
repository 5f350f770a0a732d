package condition

import (
	"fmt"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/jmespath"
)

// BenchmarkOperator evaluates constant keys, to measure an operator without its variables.
func BenchmarkOperator(b *testing.B) {
	capabilities := make([]any, 14)
	for i := range capabilities {
		capabilities[i] = fmt.Sprintf("CAPABILITY_%d", i)
	}
	for _, c := range []struct {
		name       string
		op         *Operator
		key, value any
	}{
		{"AnyNotIn/14 texts", anyNotIn, []any{"CAPABILITY_3", "CAPABILITY_13"}, capabilities},
		{"AllNotIn/wildcards", allNotIn, "kube-system", []any{"kyverno", "def*"}},
		{"AnyIn/range", anyIn, "512Mi", "100Mi-1Gi"},
		{"Equals/text", equals, "Unconfined", "RuntimeDefault"},
		{"Equals/quantity", equals, "1024Mi", "1Gi"},
		{"GreaterThan/number", greaterThan, 2.0, 0.0},
		{"GreaterThan/version", greaterThan, "1.10.0", "1.9.0"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			m := budget.New(b.Context(), 1<<62, 1<<62)
			right := c.op.prepare(c.value, false)
			for b.Loop() {
				if _, err := right.evaluateKey(m, c.key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDeny evaluates the conditions of a typical Pod Security rule: host ports and added capabilities of a
// compliant Pod.
func BenchmarkDeny(b *testing.B) {
	set, diags := Compile(decode(b, `{"any": [
		{"key": "{{ request.object.spec.containers[].ports[].hostPort }}", "operator": "GreaterThan", "value": 0},
		{"key": "{{ request.object.spec.containers[].securityContext.capabilities.add[] }}", "operator": "AnyNotIn",
			"value": ["AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"]},
		{"key": "{{ request.object.spec.hostNetwork || `+"`false`"+` }}", "operator": "Equals", "value": true}]}`), "p", nil)
	if len(diags) > 0 {
		b.Fatal(diags)
	}
	root := newRoot()
	root.values["request"] = decode(b, `{"operation": "CREATE", "object": {"spec": {"containers": [
		{"name": "a", "ports": [{"containerPort": 80}], "securityContext": {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}},
		{"name": "b", "image": "x", "securityContext": {"capabilities": {"add": ["CHOWN", "KILL"]}}}]}}}`)
	env := &jmespath.Env{Meter: budget.New(b.Context(), 1<<62, 1<<62)}
	b.ReportAllocs()
	for b.Loop() {
		if v, err := set.Eval(env, root); err != nil || v.OK {
			b.Fatal(v, err)
		}
	}
}
