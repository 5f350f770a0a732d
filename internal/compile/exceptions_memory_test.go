package compile

import (
	"fmt"
	"runtime"
	"testing"

	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
)

// An exception in force takes at most 2 kB beside its object, which the cache of the API server's objects holds.
func TestMemoryOfAnException(t *testing.T) {
	const n, bound = 2000, 2048
	var objects []Object
	for i := range n {
		objects = append(objects, Object{Value: golden.Decode[map[string]any](t, fmt.Appendf(nil, `{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: e-%[1]d, namespace: team-%[1]d, uid: u-%[1]d, generation: 1,
			annotations: {exceptions.ephor.dev/reason: "reason %[1]d", exceptions.ephor.dev/owner: team-%[1]d, exceptions.ephor.dev/expires-at: "2200-01-31T12:00:00Z", exceptions.ephor.dev/covers: workload}},
			spec: {exceptions: [{policyName: policy-%[1]d, ruleNames: [rule-%[1]d]}], match: {any: [{resources: {kinds: [Deployment], namespaces: [team-%[1]d], names: [web-%[1]d]}}]}}}`, i))})
	}
	compiled := make([]*policy.Exception, n)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i, o := range objects {
		e, diags := OneException(o)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		compiled[i] = e
	}
	each := (heap() - before) / n
	runtime.KeepAlive(compiled)
	runtime.KeepAlive(objects)
	t.Logf("%d bytes", each)
	if each > bound {
		t.Errorf("an exception takes %d bytes, at most %d are wanted", each, bound)
	}
}
