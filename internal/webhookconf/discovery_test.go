package webhookconf

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/discovery/discoverytest"
	"ephor.invalid/ephor/internal/policy"
)

// If a kind may belong to a group that cannot be listed, it is not "unknown": its policy is not ready until the group is listed.
func TestDiscoveryErrors(t *testing.T) {
	input := in(program("known", nil, "Pod"), program("unknown", nil, "PodMetrics"))
	input.Resources = discovery.New(discoverytest.Broken{Served: cluster}, time.Now)
	got, ready, _, err := Desired(input)
	if err != nil {
		t.Fatal(err)
	}
	if ready["ClusterPolicy/known"] != nil || ready["ClusterPolicy/unknown"] == nil {
		t.Errorf("ready: %v", ready)
	}
	if len(validatingOf(got, ResourceValidating).Webhooks) != 1 {
		t.Error("the known policy lost its webhook")
	}
	input.Resources = discovery.New(noDiscovery{}, time.Now)
	if _, _, _, err := Desired(input); err == nil {
		t.Error("with no list at all nothing may be concluded")
	}
}

// A kind in a group that cannot be listed takes no other kind of its rule out of the webhooks, whichever comes first.
func TestRulesWithAnUnlistedKind(t *testing.T) {
	for _, kinds := range [][]string{{"PodMetrics", "Pod"}, {"Pod", "PodMetrics"}} {
		generates := program("g", func(p *policy.Program) {
			p.Rules[0].Stage = policy.StageGenerate
			p.Rules[0].Outputs = []policy.Output{{APIVersion: "metrics.k8s.io/v1", Kind: "PodMetrics"}, {APIVersion: "v1", Kind: "ConfigMap"}}
		}, kinds[0])
		input := in(program("p", nil, kinds...), generates)
		input.Resources = discovery.New(discoverytest.Broken{Served: cluster + served("v1 pods/resize Pod\n")}, time.Now)
		got, ready, _, err := Desired(input)
		if err != nil || ready["ClusterPolicy/p"] == nil || ready["ClusterPolicy/g"] == nil {
			t.Fatal(err, ready)
		}
		for _, c := range []struct{ place, want string }{{"pods", "validate.kyverno.svc-fail"}, {"pods/resize", "resize.validate.kyverno.svc-fail"}, {"configmaps", "validate.kyverno.svc-fail"}} {
			r, _ := requestFor(policy.Update, c.place, "v1", "n", "x", nil)
			if names := asked(t, got, r, nil); len(names) != 1 || names[0] != c.want {
				t.Errorf("%v: %s: asked by %q", kinds, c.place, names)
			}
		}
	}
}

type noDiscovery struct{ served }

func (noDiscovery) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return nil, nil, errors.New("connection refused")
}

type changing struct{ served }

// The API server lists a kind some time after its definition is established. Until then discovery is repeated often, and a policy that
// names the kind is not ready.
func TestSettling(t *testing.T) {
	now := time.Unix(0, 0)
	fake := &changing{served: cluster}
	d := discovery.New(fake, func() time.Time { return now })
	input := in(program("known", nil, "Pod"), program("new", nil, "Gadget"))
	input.Resources = d
	look := func() (rules int, ready error) {
		t.Helper()
		input.Settling = d.Settling()
		got, readiness, _, err := Desired(input)
		if err != nil || readiness["ClusterPolicy/known"] != nil {
			t.Fatal(err, readiness)
		}
		return len(validatingOf(got, ResourceValidating).Webhooks[0].Rules), readiness["ClusterPolicy/new"]
	}
	if rules, ready := look(); d.Settling() || rules != 1 || ready != nil {
		t.Errorf("nothing changed: %d rules, %v", rules, ready)
	}
	d.Invalidate()
	if rules, ready := look(); !d.Settling() || rules != 1 || !errors.Is(ready, ErrSettling) {
		t.Errorf("a definition changed: %d rules, %v", rules, ready)
	}
	fake.served += "x.io/v1 gadgets Gadget\n"
	now = now.Add(300 * time.Millisecond)
	if rules, ready := look(); rules != 2 || ready != nil {
		t.Errorf("it is listed: %d rules, %v", rules, ready)
	}
	input.Programs = append(input.Programs, program("never", nil, "Nothing"))
	now = now.Add(3 * time.Second)
	if _, ready := look(); d.Settling() || ready != nil {
		t.Errorf("it is over: %v", ready)
	}
}
