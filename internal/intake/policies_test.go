package intake

import (
	"fmt"
	"log/slog"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/policy"
)

func TestPoliciesFollowEvents(t *testing.T) {
	c := catalog.New()
	seen := 0
	p := NewPolicies(PolicyOptions{Kinds: Requests(), Catalog: c, ForceIgnore: true, Seen: func() { seen++ }, Log: slog.New(slog.DiscardHandler)})
	h := p.Watches()[0].Handler
	object := func(generation int64, message string) *unstructured.Unstructured {
		var u unstructured.Unstructured
		text := fmt.Sprintf(`{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p, uid: u, generation: %d}, spec: {rules: [
		  {name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {message: %s, pattern: {spec: {hostNetwork: "false"}}}}]}}`, generation, message)
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		u.SetGeneration(generation)
		return &u
	}
	program := func() *policy.Program { return c.Snapshot().Get(catalog.ID{Kind: "ClusterPolicy", Name: "p"}) }
	first := object(1, "one")
	h.OnAdd(first, true)
	before := program()
	if before == nil || before.Settings.FailurePolicy != policy.Ignore {
		t.Fatalf("%+v", before)
	}
	withStatus := object(1, "one")
	withStatus.Object["status"] = map[string]any{"ready": true}
	h.OnUpdate(first, withStatus)
	if program() != before {
		t.Error("a status compiled the policy again")
	}
	if objects, _ := p.All(); objects[policy.ID{Kind: "ClusterPolicy", Name: "p"}] != withStatus {
		t.Error("the object with the status is not kept: its status would be written again and again")
	}
	h.OnUpdate(withStatus, object(2, "two"))
	if program() == before {
		t.Error("a change was not compiled")
	}
	h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: withStatus})
	if program() != nil {
		t.Error("a deleted policy is in force")
	}
	if objects, broken := p.All(); len(objects)+len(broken) > 0 {
		t.Errorf("left over: %v %v", objects, broken)
	}
	if seen != 4 {
		t.Errorf("%d events were reported, want 4", seen)
	}
}
