package discovery

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/discovery/discoverytest"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

type served = discoverytest.Served

const cluster = discoverytest.Cluster

type flaky struct {
	served
	down bool
}

func (f *flaky) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	if f.down {
		return discoverytest.Broken{Served: f.served}.ServerGroupsAndResources()
	}
	return f.served.ServerGroupsAndResources()
}

// Resources of a group stay valid if its listing fails.
func TestStaleGroups(t *testing.T) {
	now := time.Unix(0, 0)
	fake := &flaky{served: cluster + "metrics.k8s.io/v1 pods PodMetrics\n"}
	d := New(fake, func() time.Time { return now })
	for range 3 {
		if found, err := d.Find(policy.Target{Group: "*", Version: "*", Kind: "PodMetrics"}); err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		fake.served, fake.down = cluster, true
		now = now.Add(time.Hour)
	}
}

// A group is unknown while it could never be listed.
func TestUnknownGroups(t *testing.T) {
	for group, want := range map[string]bool{"metrics.k8s.io": true, "apps": false, "none": false} {
		d := New(discoverytest.Broken{Served: cluster}, time.Now)
		if !d.Unknown(group) {
			t.Errorf("%s is known before the first list", group)
		}
		if _, err := d.Find(policy.Target{Group: "*", Version: "*", Kind: "*"}); err != nil || d.Unknown(group) != want {
			t.Errorf("%s: unknown is %v, %v", group, d.Unknown(group), err)
		}
	}
}

// Missing kinds are looked up again, so that a new CRD is found.
func TestDiscoveryIsRefreshed(t *testing.T) {
	now := time.Unix(0, 0)
	fake := &changing{served: cluster}
	d := New(fake, func() time.Time { return now })
	if found, err := d.Find(policy.Target{Group: "*", Version: "*", Kind: "Widget"}); err != nil || len(found) != 0 {
		t.Fatal(found, err)
	}
	fake.served += "x.io/v1 widgets Widget\n"
	now = now.Add(time.Minute)
	if found, err := d.Find(policy.Target{Group: "*", Version: "*", Kind: "Widget"}); err != nil || len(found) != 1 || found[0].Group != "x.io" {
		t.Fatal(found, err)
	}
	if gvk, err := d.KindFor(t.Context(), schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}); err != nil || gvk.Kind != "Deployment" {
		t.Error(gvk, err)
	}
	if _, err := d.KindFor(t.Context(), schema.GroupVersionResource{Version: "v1", Resource: "nothings"}); err == nil {
		t.Error("a resource that is not served is an error")
	}
}

type changing struct{ served }

// Bodies of subresources have kinds that no resource has.
func TestBodyOf(t *testing.T) {
	d := New(cluster, time.Now)
	if found, err := d.Find(policy.Target{Group: "*", Version: "*", Kind: "Scale"}); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
	for kind, want := range map[string]string{"Scale": "ReplicationController/scale Deployment/scale", "PodExecOptions": "Pod/exec", "Pod": "", "Strange": ""} {
		if got := strings.Join(d.BodyOf(kind), " "); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

// The resources of targets on an API server.
func TestFind(t *testing.T) {
	d := New(cluster, time.Now)
	kind := func(group, version, kind, sub string) policy.Target {
		return policy.Target{Group: group, Version: version, Kind: kind, Subresource: sub}
	}
	resource := func(group, version, resource, sub string) policy.Target {
		return policy.Target{Group: group, Version: version, Resource: resource, Subresource: sub}
	}
	for _, c := range []struct {
		target policy.Target
		want   string
	}{
		{kind("*", "*", "Pod", ""), "pods"},
		{kind("*", "*", "Pod", "*"), "pods/exec pods/log pods/ephemeralcontainers"},
		{kind("*", "*", "*", "scale"), "replicationcontrollers/scale deployments/scale"},
		{kind("a*", "v1", "*Set", ""), "daemonsets replicasets statefulsets"},
		{kind("", "v1", "Deployment", ""), ""},
		{resource("", "v1", "pods", ""), "pods"},
		{resource("", "v1", "pods", "exec"), "pods/exec"},
		{resource("", "v1", "pods", "*"), "pods pods/exec pods/log pods/ephemeralcontainers"},
		{resource("*", "*", "*", "scale"), "replicationcontrollers/scale deployments/scale"},
		{resource("batch", "*", "*", ""), "cronjobs jobs"},
		{resource("apps", "v1", "*", "*"), "daemonsets deployments deployments/scale replicasets statefulsets"},
		{resource("a*", "*", "*", ""), ""}, // only * is a wildcard
		{policy.Target{Group: "*", Version: "*", Resource: "*", Scope: policy.ClusterScope}, "namespaces customresourcedefinitions"},
		{policy.Target{Group: "", Version: "*", Resource: "*", Scope: policy.NamespacedScope}, "pods configmaps replicationcontrollers services"},
	} {
		found, err := d.Find(c.target)
		var got []string
		for _, r := range found {
			name := r.Resource
			if r.Subresource != "" {
				name += "/" + r.Subresource
			}
			got = append(got, name)
		}
		if text := strings.Join(got, " "); err != nil || text != c.want {
			t.Errorf("%s: %q, %v; want %q", c.target.String(), text, err, c.want)
		}
	}
}

func TestOneVersion(t *testing.T) {
	scaler := func(version string, preferred bool) Resource {
		return Resource{Group: "autoscaling", Version: version, Resource: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Preferred: preferred}
	}
	status := scaler("v2", false)
	status.Subresource = "status"
	for _, c := range []struct {
		found []Resource
		want  string
	}{
		{[]Resource{scaler("v1", false), scaler("v2", true), status}, "v2 v2"},
		{[]Resource{scaler("v1", false), scaler("v2", false)}, "v1"},
		{nil, ""},
	} {
		var got []string
		for _, r := range OneVersion(c.found) {
			got = append(got, r.Version)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v, want %s", got, c.want)
		}
	}
	if got := KindsOf([]Resource{status, scaler("v1", false)}); len(got) != 1 || got[0].Version != "v1" {
		t.Errorf("%v", got)
	}
}

// The lookups for package world.
func TestKinds(t *testing.T) {
	k := Kinds{Resources: New(cluster, time.Now)}
	for _, c := range []struct {
		apiVersion, kind string
		namespaced, ok   bool
	}{{"v1", "Pod", true, true}, {"v1", "Namespace", false, true}, {"v1", "Deployment", false, false}, {"a/b/c", "Pod", false, false}} {
		if got, err := k.Namespaced(t.Context(), world.Kind{APIVersion: c.apiVersion, Kind: c.kind}); got != c.namespaced || (err == nil) != c.ok {
			t.Errorf("%s %s: %v, %v", c.apiVersion, c.kind, got, err)
		}
	}
	var unknown *world.NoKindError
	if _, err := k.Namespaced(t.Context(), world.Kind{APIVersion: "v1", Kind: "Deployment"}); !errors.As(err, &unknown) || err.Error() != `no matches for kind "Deployment" in version "v1"` {
		t.Errorf("an unknown kind: %v", err)
	}
	for kind, want := range map[string]string{"Pod": "pods", "Nope": ""} {
		if got, err := k.Resource(t.Context(), world.Kind{APIVersion: "v1", Kind: kind}); got != want || (err == nil) != (want != "") {
			t.Errorf("the resource of %s: %q, %v", kind, got, err)
		}
	}
	for apiVersion, want := range map[string]int{"*": 3, "apps/*": 3, "v1": 0, "apps/v2": 0} {
		if found, err := k.Find(t.Context(), world.Kind{APIVersion: apiVersion, Kind: "*Set"}); err != nil || len(found) != want {
			t.Errorf("%s: %v, %v", apiVersion, found, err)
		}
	}
}

// Without an API server, the resources of built-in kinds are exact.
func TestResourceOf(t *testing.T) {
	for kind, want := range map[string]string{
		"Pod": "pods", "Ingress": "ingresses", "NetworkPolicy": "networkpolicies", "Gateway": "gateways", "Endpoints": "endpoints",
		"Mesh": "meshes", "Box": "boxes", "Patch": "patches", "": "", "Y": "ys", "IPAddress": "ipaddresses", "StorageClass": "storageclasses",
	} {
		gvk := schema.GroupVersionKind{Group: "g", Version: "v", Kind: kind}
		if got := ResourceOf(gvk); got != (schema.GroupVersionResource{Group: "g", Version: "v", Resource: want}) {
			t.Errorf("%s: %v, want %s", kind, got, want)
		}
	}
}

// Available definitions give names that the convention cannot.
func TestOffline(t *testing.T) {
	var o Offline
	define := func(group string, names map[string]any) {
		o.Define(map[string]any{"kind": "CustomResourceDefinition", "spec": map[string]any{"group": group, "names": names}})
	}
	define("x.io", map[string]any{"kind": "Sheep", "plural": "sheep"})
	define("y.io", map[string]any{"kind": "Goose"})
	o.Define(map[string]any{"kind": "Pod", "spec": map[string]any{"group": "z.io", "names": map[string]any{"kind": "Ox", "plural": "oxen"}}})
	for gvk, want := range map[schema.GroupVersionKind]string{
		{Group: "x.io", Version: "v1", Kind: "Sheep"}: "sheep",
		{Group: "a.io", Version: "v1", Kind: "Sheep"}: "sheeps",
		{Group: "y.io", Version: "v1", Kind: "Goose"}: "gooses",
		{Group: "z.io", Version: "v1", Kind: "Ox"}:    "oxes",
	} {
		if got := o.ResourceOf(gvk); got != gvk.GroupVersion().WithResource(want) {
			t.Errorf("%v: %v", gvk, got)
		}
	}
}

// slow is a discovery that ends in a timeout while it is down.
type slow struct {
	served
	down  atomic.Bool
	calls atomic.Int32
}

func (s *slow) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	s.calls.Add(1)
	if s.down.Load() {
		time.Sleep(32 * time.Second) // of the synctest bubble, as client-go waits
		return nil, nil, errors.New("the server was unable to return a response in the time allotted")
	}
	return s.served.ServerGroupsAndResources()
}

// No caller waits for a fetch if the list has the answer. The others share one fetch, no longer than their own time, and after a failure there
// is a pause.
func TestSlowDiscovery(t *testing.T) {
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	for name, age := range map[string]func(*Discovery){
		"after 10 minutes":      func(*Discovery) { time.Sleep(maxAge + time.Second) },
		"after a change of CRD": func(d *Discovery) { d.Invalidate() },
	} {
		synctest.Test(t, func(t *testing.T) {
			client := &slow{served: cluster}
			d := New(client, time.Now)
			if _, err := d.KindFor(t.Context(), deployments); err != nil {
				t.Fatal(err)
			}
			age(d)
			client.down.Store(true)
			client.calls.Store(0)
			began := time.Now()
			var callers sync.WaitGroup
			for range 8 {
				callers.Go(func() {
					if _, err := d.KindFor(t.Context(), deployments); err != nil || time.Since(began) > 0 {
						t.Errorf("%s: the list has the answer: %v after %v", name, err, time.Since(began))
					}
				})
				callers.Go(func() {
					if found, err := d.Find(policy.Target{Group: "*", Version: "*", Kind: "Deploy*"}); err != nil || len(found) != 1 || time.Since(began) > 32*time.Second {
						t.Errorf("%s: callers do not share a fetch, or an old list is no answer: %v, %v after %v", name, found, err, time.Since(began))
					}
				})
			}
			callers.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			time.Sleep(minAge)
			began = time.Now()
			if _, err := (Kinds{d}).Namespaced(ctx, world.Kind{APIVersion: "v1", Kind: "Widget"}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second {
				t.Errorf("%s: a lookup waits longer than its own time: %v after %v", name, err, time.Since(began))
			}
			time.Sleep(time.Minute)
			if n := client.calls.Load(); n != 2 {
				t.Errorf("%s: %d fetches, want 2", name, n)
			}
		})
	}
}

// A change that is announced during a fetch may not be in what it returns, so the next caller fetches again.
func TestChangedDuringAFetch(t *testing.T) {
	client := &interrupted{served: cluster}
	d := New(client, time.Now)
	client.during = d.Invalidate
	widgets := policy.Target{Group: "*", Version: "*", Kind: "Wid*"}
	if found, err := d.Find(widgets); err != nil || len(found) != 0 {
		t.Fatal(found, err)
	}
	client.during, client.served = func() {}, cluster+"x.io/v1 widgets Widget\n"
	if found, err := d.Find(widgets); err != nil || len(found) != 1 {
		t.Error("a new kind is missing:", found, err)
	}
}

type interrupted struct {
	served
	during func()
}

func (i *interrupted) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	defer i.during()
	return i.served.ServerGroupsAndResources()
}
