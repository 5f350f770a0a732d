package intake

import (
	"log/slog"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// A packed exception is compiled when a policy exists that it names. Its source is the object, without the parts that no controller reads.
func TestPackedExceptions(t *testing.T) {
	c := catalog.New()
	x := &Exceptions{Catalog: c, Accepts: func(string) bool { return true }, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	h := x.Watches()[0].Handler
	object := func(version, status string) *Packed {
		return Pack(&unstructured.Unstructured{Object: golden.Decode[map[string]any](t, []byte(`{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: e, namespace: shop, uid: u, generation: 1, resourceVersion: "`+version+`",
			managedFields: [{manager: kubectl}], annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", exceptions.ephor.dev/owner: a}},
			spec: {exceptions: [{policyName: p, ruleNames: [r]}], match: {any: [{resources: {kinds: [Pod], names: [web]}}]}}, status: `+status+`}`))}, "approval")
	}
	first := object("1", `{approval: {by: jane}, use: {days: []}}`)
	h.OnAdd(first, true)
	if list := c.Snapshot().Exceptions(); len(list) != 1 || list[0].Match != nil || list[0].Owner != "a" || list[0].ResourceVersion != "1" {
		t.Fatalf("without its policy: %+v", list)
	}
	c.Set(&policy.Program{Kind: "ClusterPolicy", Name: "p", Rules: []*policy.Rule{{Name: "r"}, {Name: "s"}}})
	p := c.Snapshot().Programs()[0]
	if len(p.Rules[0].Exceptions) != 1 || len(p.Rules[1].Exceptions) != 0 {
		t.Fatalf("it is joined to %v and %v", p.Rules[0].Exceptions, p.Rules[1].Exceptions)
	}
	e := p.Rules[0].Exceptions[0]
	for name, want := range map[string]bool{"web": true, "other": false} {
		pod := map[string]any{"metadata": map[string]any{"name": name}}
		req := &policy.Request{Review: policy.Review{Operation: policy.Create, GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "shop", Name: name, Object: value.Of(pod)}}
		if got, err := e.Match(t.Context(), req); err != nil || got != want {
			t.Errorf("it selects %s: %v, %v", name, got, err)
		}
	}
	u := &unstructured.Unstructured{Object: e.Source()}
	by, _, _ := unstructured.NestedString(u.Object, "status", "approval", "by")
	_, used, _ := unstructured.NestedMap(u.Object, "status", "use")
	if by != "jane" || used || len(u.GetAnnotations()) != 1 || len(u.GetManagedFields()) != 0 || u.GetResourceVersion() != "1" || u.GetUID() != "u" {
		t.Errorf("the source is %v", u.Object)
	}

	// A change of the rest of the status is no change of the exception, and its text is the same one.
	second := object("2", `{approval: {by: jane}, use: {days: [{day: "2026-01-01"}]}}`)
	h.OnUpdate(first, second)
	if again := c.Snapshot().Programs()[0]; again != p || second.text != first.text || second.GetResourceVersion() != "2" {
		t.Errorf("after a change of the status: %v, %s", again != p, second.text)
	}
	h.OnDelete(second)
	if list := c.Snapshot().Exceptions(); len(list) != 0 {
		t.Errorf("it is deleted: %v", list)
	}
}
