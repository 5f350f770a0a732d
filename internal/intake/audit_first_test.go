package intake

import (
	"log/slog"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// A policy that audits first denies, changes and generates nothing, and does again what it says once it is released. Its rules stay, so that
// nothing that they generated is deleted.
func TestAuditFirst(t *testing.T) {
	const (
		rules = `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p, uid: u, generation: 1}, spec: {rules: [
{name: deny, match: {any: [{resources: {kinds: [ConfigMap]}}]}, validate: {failureAction: Enforce, failureActionOverrides: [{action: Enforce, namespaces: [a]}], message: m, pattern: {metadata: {labels: {a: b}}}}},
{name: change, match: {any: [{resources: {kinds: [ConfigMap]}}]}, mutate: {patchStrategicMerge: {metadata: {labels: {a: b}}}}},
{name: make, match: {any: [{resources: {kinds: [ConfigMap]}}]}, generate: {generateExisting: true, synchronize: true, apiVersion: v1, kind: Secret, name: s, namespace: a, data: {data: {}}}}]}}`
		cleanup = `{apiVersion: kyverno.io/v2, kind: ClusterCleanupPolicy, metadata: {name: p, uid: c, generation: 1}, spec: {schedule: "* * * * *", match: {any: [{resources: {kinds: [Pod]}}]}}}`
	)
	c := catalog.New()
	kinds := append(Requests(), Scheduled()...)
	p := NewPolicies(PolicyOptions{Kinds: kinds, Catalog: c, Log: slog.New(slog.DiscardHandler)})
	p.AuditFirst(map[string]bool{"ClusterPolicy/p": true})
	h := p.Watches()[0].Handler
	for _, text := range []string{rules, cleanup} {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		u.SetGeneration(1)
		h.OnAdd(&u, true)
	}
	program := func(kind string) *policy.Program {
		got := c.Snapshot().Get(policy.ID{Kind: kind, Name: "p"})
		if got == nil || got.Diags.HasErrors() {
			t.Fatalf("%+v", got)
		}
		return got
	}
	object := value.Of(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "a"}})
	check := func(audits bool) {
		t.Helper()
		got := program("ClusterPolicy")
		if got.AuditsFirst != audits || len(got.Rules) != 3 || (got.Settings.FailurePolicy == policy.Ignore) != audits {
			t.Errorf("audits first: %v, %d rules, %s", got.AuditsFirst, len(got.Rules), got.Settings.FailurePolicy)
		}
		req := &policy.Request{Review: policy.Review{Operation: policy.Create, Object: object, User: &policy.User{}, Name: "x", Namespace: "a"}}
		req.GVK.Version, req.GVK.Kind = "v1", "ConfigMap"
		for _, r := range got.Rules {
			matches, err := r.Match(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if r.Stage == policy.StageValidate {
				if !matches || r.Action.May(policy.Deny) == audits {
					t.Errorf("%s: matches %v, may deny %v", r.Name, matches, r.Action.May(policy.Deny))
				}
				continue
			}
			if matches == audits || r.Generation != nil && (r.Generation.Existing || r.Generation.Synchronize) == audits {
				t.Errorf("%s: matches %v, %+v", r.Name, matches, r.Generation)
			}
		}
	}
	check(true)
	if program("ClusterCleanupPolicy").Schedule == nil {
		t.Error("a policy of another kind with the name has no schedule")
	}
	p.AuditFirst(map[string]bool{"ClusterCleanupPolicy/p": true})
	check(false)
	if program("ClusterCleanupPolicy").Schedule != nil {
		t.Error("the cleanup policy has a schedule")
	}
	before := program("ClusterPolicy")
	p.AuditFirst(nil)
	if program("ClusterCleanupPolicy").Schedule == nil || program("ClusterPolicy") != before {
		t.Error("the cleanup policy was not released, or another one was compiled again")
	}
}
