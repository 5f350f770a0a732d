package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"ephor.invalid/ephor/internal/compliance"
)

// objects answers reads, and counts them.
type objects struct {
	mu    sync.Mutex
	metas map[string]Meta // by namespace/kind/name
	reads map[string]int
}

func (o *objects) read(_ context.Context, r compliance.Resource) (Meta, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := r.Namespace + "/" + r.Kind + "/" + r.Name
	o.reads[name]++
	if r.Kind == "Secret" {
		return Meta{}, false, errors.New("secrets is forbidden")
	}
	m, ok := o.metas[name]
	if !ok && r.Kind == "Node" {
		m, ok = o.metas["/Node/"+r.Name]
	}
	return m, ok, nil
}

func owned(by ...string) []metav1.OwnerReference {
	var out []metav1.OwnerReference
	for _, text := range by {
		kind, name, _ := strings.Cut(text, "/")
		name, manages := strings.CutSuffix(name, "!")
		out = append(out, metav1.OwnerReference{APIVersion: "v1", Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: &manages})
	}
	return out
}

func TestOwn(t *testing.T) {
	o := &objects{reads: map[string]int{}, metas: map[string]Meta{
		"shop/Pod/web-1":        {Namespace: "shop", UID: "uid-web-1", Owners: owned("Other/x", "ReplicaSet/web!")},
		"shop/Pod/web-2":        {Namespace: "shop", UID: "uid-web-2", Owners: owned("ReplicaSet/web")},
		"shop/ReplicaSet/web":   {Namespace: "shop", UID: "uid-web", Labels: map[string]string{"team": "middle"}, Owners: owned("Deployment/web-d!")},
		"shop/Deployment/web-d": {Namespace: "shop", UID: "uid-web-d", Labels: map[string]string{"team": "top"}},
		"shop/Pod/alone":        {Namespace: "shop", UID: "uid-alone"},
		"shop/Pod/own":          {Namespace: "shop", UID: "uid-own", Labels: map[string]string{"team": "own"}, Owners: owned("Job/deleted!")},
		"shop/Pod/mirror":       {Namespace: "shop", UID: "uid-mirror", Owners: owned("Node/n1!")},
		"/Node/n1":              {UID: "uid-n1"},
		"shop/Pod/new":          {Namespace: "shop", UID: "uid-of-another", Owners: owned("ReplicaSet/web!")},
		"shop/Pod/loop":         {Namespace: "shop", UID: "uid-loop", Owners: owned("Pod/loop!")},
		"/Namespace/shop":       {UID: "uid-shop", Labels: map[string]string{"team": "of-the-namespace"}},
	}}
	p := &Plan{}
	names := strings.Fields("web-1 web-2 alone own mirror new loop gone")
	for _, name := range names {
		p.Refused = append(p.Refused, Refused{Resource: compliance.Resource{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: name, UID: "uid-" + name}})
	}
	p.Own(t.Context(), &Owners{Read: o.read, Label: "team", Limit: 100})
	var got []string
	for _, r := range p.Refused {
		got = append(got, fmt.Sprintf("%s: %s of %s", r.Resource.Name, r.Owner, r.Whose))
	}
	want := []string{
		"web-1: shop/Deployment/web-d of top", "web-2: shop/Deployment/web-d of top", "alone: shop/Pod/alone of of-the-namespace",
		"own: shop/Job/deleted of own", "mirror: Node/n1 of of-the-namespace", "new: shop/Pod/new of of-the-namespace",
		"loop: shop/Pod/loop of of-the-namespace", "gone: shop/Pod/gone of of-the-namespace",
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s, want %s", got[i], want[i])
		}
	}
	for name, n := range o.reads {
		if n != 1 {
			t.Errorf("%s is read %d times", name, n)
		}
	}
	if len(p.Lacks) != 0 {
		t.Errorf("%+v", p.Lacks)
	}
}

// A chain that never ends is abandoned; reads beyond the limit, and forbidden ones, are counted.
func TestOwnIsBounded(t *testing.T) {
	reads := 0
	endless := func(_ context.Context, r compliance.Resource) (Meta, bool, error) {
		reads++
		return Meta{Namespace: r.Namespace, UID: r.UID, Owners: owned("Pod/" + r.Name + "x!")}, true, nil
	}
	p := &Plan{Refused: []Refused{{Resource: compliance.Resource{Kind: "Pod", Name: "p", UID: "uid-p"}}}}
	p.Own(t.Context(), &Owners{Read: endless, Limit: 1000})
	if reads != maxChain {
		t.Errorf("%d reads", reads)
	}
	if len(p.Lacks) != 1 || !strings.Contains(p.Lacks[0].What, "--owner-label") {
		t.Errorf("%+v", p.Lacks)
	}

	o := &objects{reads: map[string]int{}, metas: map[string]Meta{}}
	p = &Plan{}
	for i := range 20 {
		p.Refused = append(p.Refused, Refused{Resource: compliance.Resource{Kind: "Pod", Name: fmt.Sprint(i)}})
	}
	p.Refused = append(p.Refused, Refused{Resource: compliance.Resource{Kind: "Secret", Name: "s"}})
	p.Own(t.Context(), &Owners{Read: o.read, Label: "team", Limit: 5})
	total := 0
	for _, n := range o.reads {
		total += n
	}
	if total != 5 || len(p.Lacks) == 0 || !strings.Contains(p.Lacks[0].What, "--owner-reads bounds") {
		t.Errorf("%d reads, %+v", total, p.Lacks)
	}
	p = &Plan{Refused: []Refused{{Resource: compliance.Resource{Kind: "Secret", Name: "s"}}}}
	p.Own(t.Context(), &Owners{Read: o.read, Label: "team", Limit: 5})
	if p.Refused[0].Owner != nil || len(p.Lacks) != 1 || p.Lacks[0].What != "the owners of 1 resource: secrets is forbidden" {
		t.Errorf("%+v", p)
	}
}

// ReplicaSets that a Deployment keeps of earlier revisions are not created again: after a fix, only they violate.
func TestSupersededReplicaSets(t *testing.T) {
	revision := func(n string) map[string]string { return map[string]string{revisionAnnotation: n} }
	o := &objects{reads: map[string]int{}, metas: map[string]Meta{
		"shop/ReplicaSet/old":   {Namespace: "shop", UID: "uid-old", Annotations: revision("1"), Owners: owned("Deployment/web!")},
		"shop/ReplicaSet/new":   {Namespace: "shop", UID: "uid-new", Annotations: revision("2"), Owners: owned("Deployment/web!")},
		"shop/ReplicaSet/other": {Namespace: "shop", UID: "uid-other", Annotations: revision("1"), Owners: owned("Rollout/x!")},
		"shop/Deployment/web":   {Namespace: "shop", UID: "uid-web", Annotations: revision("2")},
	}}
	p := plan(Options{Keep: 10}, nil, report("shop", "old", "team=fail"), report("shop", "new", "team=fail"), report("shop", "other", "team=fail"), report("shop", "good", "team=pass"))
	for i := range p.Refused {
		p.Refused[i].Resource.Kind = "ReplicaSet"
	}
	p.Own(t.Context(), &Owners{Read: o.read, Limit: 100})
	if n := p.Namespaces[0]; n.Superseded != 1 || n.Violating != 2 || n.Resources != 3 || len(p.Refused) != 2 || p.Refused[0].Resource.Name != "new" {
		t.Errorf("%+v\n%+v", n, p.Refused)
	}
	p = plan(Options{Keep: 10}, nil, report("shop", "old", "team=fail"), report("shop", "good", "team=pass"))
	p.Refused[0].Resource.Kind = "ReplicaSet"
	p.Own(t.Context(), &Owners{Read: o.read, Limit: 100})
	if p.Evaluate(Facts{}); p.Verdict != Safe || !p.Namespaces[0].Safe || p.Namespaces[0].Rate != 0 {
		t.Errorf("%+v", p)
	}
}
