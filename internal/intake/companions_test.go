package intake

import (
	"fmt"
	"log/slog"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// A policy is compiled again when a binding is created, selects another policy or is deleted, whichever of the two exists first. Only
// accepted policies and bindings count.
func TestCompanionsFollowEvents(t *testing.T) {
	c := catalog.New()
	p := NewPolicies(PolicyOptions{
		Kinds: family.Kinds{compile.Kinds.Named("ValidatingAdmissionPolicy")}, Catalog: c,
		Accept:  func(u *unstructured.Unstructured) bool { return u.GetLabels()["off"] == "" },
		Compile: family.Options{Existing: true}, Log: slog.New(slog.DiscardHandler),
	})
	watches := p.Watches()
	if len(watches) != 2 || watches[0].Object.GetObjectKind().GroupVersionKind().Kind != "ValidatingAdmissionPolicy" ||
		watches[1].Object.GetObjectKind().GroupVersionKind().Kind != "ValidatingAdmissionPolicyBinding" {
		t.Fatalf("%+v", watches)
	}
	policies, bindings := watches[0].Handler, watches[1].Handler
	object := func(text string, generation int64) *unstructured.Unstructured {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		u.SetGeneration(generation)
		return &u
	}
	admission := func(name, expression string, generation int64) *unstructured.Unstructured {
		return object(fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: %s}, spec: {
		  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]},
		  validations: [{expression: %q}]}}`, name, expression), generation)
	}
	binding := func(policy, label string, generation int64) *unstructured.Unstructured {
		return object(fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b%s}, spec: {
		  policyName: %q, validationActions: [Deny]}}`, label, policy), generation)
	}
	program := func(name string) *policy.Program {
		return c.Snapshot().Get(policy.ID{Kind: "ValidatingAdmissionPolicy", Name: name})
	}
	was := map[string]*policy.Program{}
	expect := func(what string, anew, same string) {
		t.Helper()
		for _, name := range []string{"p", "q"} {
			now := program(name)
			switch {
			case name == anew && (now == nil || now == was[name]):
				t.Errorf("%s: %s was not compiled anew", what, name)
			case name == same && now != was[name]:
				t.Errorf("%s: %s was compiled anew", what, name)
			}
			was[name] = now
		}
	}
	first := binding("p", "", 1)
	bindings.OnAdd(first, true)
	expect("a binding without its policy", "", "p")
	policies.OnAdd(admission("p", "true", 1), true)
	expect("its policy", "p", "q")
	policies.OnAdd(admission("q", "true", 1), true)
	expect("another policy", "q", "p")
	second := binding("q", "", 2)
	bindings.OnUpdate(first, second)
	if program("p") == was["p"] {
		t.Error("a binding left p, and it was not compiled anew")
	}
	expect("the binding names another policy", "q", "")
	bindings.OnUpdate(second, binding("q", "", 2))
	expect("a status", "", "q")
	mistake := binding("", "", 3)
	bindings.OnUpdate(second, mistake)
	expect("a binding with a mistake", "q", "p")
	bindings.OnUpdate(mistake, second)
	bindings.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: second})
	expect("the binding is gone", "q", "p")
	off := admission("p", "true", 2)
	off.SetLabels(map[string]string{"off": "x"})
	policies.OnUpdate(admission("p", "true", 1), off)
	if program("p") != nil {
		t.Error("a policy that no longer counts is in force")
	}
	policies.OnUpdate(off, admission("p", "true", 3))
	policies.OnUpdate(admission("p", "true", 3), admission("p", "object.", 4))
	if program("p") != nil {
		t.Error("a policy of the API server with a mistake is in force")
	}
	if objects, _ := p.All(); len(objects) != 2 {
		t.Errorf("%d policies are remembered, want 2", len(objects))
	}
}
