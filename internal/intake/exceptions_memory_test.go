package intake

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/value"
)

// An exception in force takes at most 2 kB, with its object in the cache of the API server's objects and its place in the catalog.
func TestMemoryOfAnException(t *testing.T) {
	const n, bound = 1500, 2048 // the tables of maps are three quarters full
	c := catalog.New()
	x := &Exceptions{Catalog: c, Accepts: func(string) bool { return true }, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	handler := x.Watches()[0].Handler
	cache := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	sizes := func() (bytes, objects uint64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, m.HeapObjects
	}
	bytes, objects := sizes()
	for i := range n {
		u := &unstructured.Unstructured{} // decoded as the informer does
		if err := u.UnmarshalJSON([]byte(value.JSON(golden.Decode[map[string]any](t, fmt.Appendf(nil, `{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: e-%[1]d, namespace: team-%[2]d, generation: 1,
			uid: 6f0c3a7e-4f6b-4c55-9f4e-0000000%05[1]d, resourceVersion: "10%[1]d", managedFields: [{manager: kubectl, operation: Apply, fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}}],
			annotations: {exceptions.ephor.dev/reason: "reason %[1]d", exceptions.ephor.dev/owner: team-%[1]d, exceptions.ephor.dev/expires-at: "2200-01-31T12:00:00Z", exceptions.ephor.dev/covers: workload}},
			spec: {exceptions: [{policyName: policy-%[1]d, ruleNames: [rule-%[1]d]}], match: {any: [{resources: {kinds: [Deployment], namespaces: [team-%[1]d], names: [web-%[1]d]}}]}}, status: {use: {days: [{day: "2026-01-01", requests: 1}]}}}`, i, i/10))))); err != nil {
			t.Fatal(err)
		}
		packed := Pack(u)
		if err := cache.Add(packed); err != nil {
			t.Fatal(err)
		}
		handler.OnAdd(packed, true)
	}
	if got := len(c.Snapshot().Exceptions()); got != n {
		t.Fatalf("%d exceptions are in force", got)
	}
	more, moreObjects := sizes()
	runtime.KeepAlive(cache)
	runtime.KeepAlive(x)
	runtime.KeepAlive(c)
	each := (more - bytes) / n
	t.Logf("%d bytes in %d objects", each, (moreObjects-objects)/n)
	if each > bound {
		t.Errorf("an exception takes %d bytes, at most %d are wanted", each, bound)
	}
}
