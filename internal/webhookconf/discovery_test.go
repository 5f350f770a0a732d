package webhookconf

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

type brokenDiscovery struct{ served }

func (b brokenDiscovery) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	groups, lists, _ := b.served.ServerGroupsAndResources()
	return groups, lists, &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "metrics.k8s.io", Version: "v1"}: errors.New("no endpoints")}}
}

// A kind that may belong to a group which cannot be listed is not "unknown": the policy is not ready until it is known.
func TestDiscoveryErrors(t *testing.T) {
	input := in(program("known", nil, "Pod"), program("unknown", nil, "PodMetrics"))
	input.Resources = NewDiscovery(brokenDiscovery{cluster}, time.Now)
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
	input.Resources = NewDiscovery(noDiscovery{}, time.Now)
	if _, _, _, err := Desired(input); err == nil {
		t.Error("with no list at all nothing may be concluded")
	}
}

type noDiscovery struct{ served }

func (noDiscovery) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return nil, nil, errors.New("connection refused")
}

// What a group served before its listing failed is still believed.
func TestStaleGroups(t *testing.T) {
	now := time.Unix(0, 0)
	fake := &flaky{served: cluster + "metrics.k8s.io/v1 pods PodMetrics\n"}
	d := NewDiscovery(fake, func() time.Time { return now })
	for range 3 {
		if found, err := d.Find("*", "*", "PodMetrics", ""); err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		fake.served, fake.down = cluster, true
		now = now.Add(time.Hour)
	}
}

type flaky struct {
	served
	down bool
}

func (f *flaky) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	if f.down {
		return brokenDiscovery{f.served}.ServerGroupsAndResources()
	}
	return f.served.ServerGroupsAndResources()
}

// What is missing in the list is looked for again, so that a new CRD is found.
func TestDiscoveryIsRefreshed(t *testing.T) {
	now := time.Unix(0, 0)
	fake := &changing{served: cluster}
	d := NewDiscovery(fake, func() time.Time { return now })
	if found, err := d.Find("*", "*", "Widget", ""); err != nil || len(found) != 0 {
		t.Fatal(found, err)
	}
	fake.served += "x.io/v1 widgets Widget\n"
	now = now.Add(time.Minute)
	if found, err := d.Find("*", "*", "Widget", ""); err != nil || len(found) != 1 || found[0].Group != "x.io" {
		t.Fatal(found, err)
	}
	if gvk, err := d.KindFor(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}); err != nil || gvk.Kind != "Deployment" {
		t.Error(gvk, err)
	}
	if _, err := d.KindFor(schema.GroupVersionResource{Version: "v1", Resource: "nothings"}); err == nil {
		t.Error("a resource that is not served is an error")
	}
}

type changing struct{ served }

// The API server lists a kind some time after its definition is established: for a while what is missing is looked for
// often, and a policy that names it is not said to be ready.
func TestSettling(t *testing.T) {
	now := time.Unix(0, 0)
	fake := &changing{served: cluster}
	d := NewDiscovery(fake, func() time.Time { return now })
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

// Bodies of subresources have kinds that no resource has.
func TestBodyOf(t *testing.T) {
	d := NewDiscovery(cluster, time.Now)
	if found, err := d.Find("*", "*", "Scale", ""); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
	for kind, want := range map[string]string{"Scale": "ReplicationController/scale Deployment/scale", "PodExecOptions": "Pod/exec", "Pod": "", "Strange": ""} {
		if got := strings.Join(d.BodyOf(kind), " "); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}
