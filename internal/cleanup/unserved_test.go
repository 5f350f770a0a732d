package cleanup

import (
	"errors"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/discovery/discoverytest"
	"ephor.invalid/ephor/internal/policy"
)

// A policy by resource means the existing combinations; a resource that no group serves is reported.
func TestUnserved(t *testing.T) {
	served := discovery.List{{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespaced: true}, {Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}}
	targets := []policy.Target{
		{Group: "", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "", Version: "v1", Resource: "pods"}, {Group: "apps", Version: "v1", Resource: "pods"},
		{Group: "", Version: "v1", Resource: "widgets"}, {Group: "apps", Version: "v1", Resource: "widgets"},
		{Group: "", Version: "v1", Resource: "pods", Subresource: "exec"},
		{Group: "example.com", Version: "v1", Kind: "Widget"},
		{Group: "", Version: "v1", Kind: "Pod"},
	}
	e := &Executor{Resources: served}
	var plan Plan
	found := e.resources(&policy.Program{Rules: []*policy.Rule{{Matching: policy.Matching{Targets: targets, Labels: "a=b"}}}}, &plan)
	if len(found) != 2 || found[0].Kind != "Deployment" || found[1].Kind != "Pod" || found[1].labels != "a=b" {
		t.Errorf("%+v", found)
	}
	var texts []string
	for _, f := range plan.Failures {
		texts = append(texts, f.Err.Error())
	}
	if len(texts) != 2 || texts[0] != "the API server serves no resource widgets" || texts[1] != "the API server serves no kind Widget" {
		t.Errorf("%q", texts)
	}
}

// partly is a discovery without the groups of an aggregated API that does not answer.
type partly struct{ discovery.List }

func (p partly) Find(t policy.Target) ([]discovery.Resource, error) {
	found, _ := p.List.Find(t)
	if len(found) == 0 {
		return nil, errors.New("metrics.k8s.io: the server is currently unable to handle the request")
	}
	return found, nil
}

// A kind that cannot be looked up is a failure, and does not keep the objects of other kinds.
func TestKindThatCannotBeLookedUp(t *testing.T) {
	e := &Executor{Resources: partly{discovery.List{{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}}}}
	var plan Plan
	found := e.resources(&policy.Program{Rules: []*policy.Rule{{Matching: policy.Matching{Targets: []policy.Target{
		{Group: "example.com", Version: "v1", Kind: "Widget"}, {Version: "v1", Kind: "Pod"},
	}}}}}, &plan)
	if len(found) != 1 || found[0].Kind != "Pod" || len(plan.Failures) != 1 || !plan.Failures[0].Later || plan.Failures[0].Object.Kind.Kind != "Widget" {
		t.Errorf("found %v, failures %v", found, plan.Failures)
	}
}

// A run for all kinds is not complete while a group cannot be listed. One for kinds with a name, or for other groups, is.
func TestWildcardWithoutAGroup(t *testing.T) {
	for _, c := range []struct {
		target policy.Target
		found  int
		want   string
	}{
		{policy.Target{Group: "*", Version: "*", Kind: "*"}, 2, "find *: unable to retrieve the complete list of server APIs: metrics.k8s.io/v1: no endpoints"},
		{policy.Target{Group: "*", Version: "*", Resource: "*"}, 2, "find */*, Resource=*: unable to retrieve the complete list of server APIs: metrics.k8s.io/v1: no endpoints"},
		{policy.Target{Group: "*", Version: "*", Kind: "Pod"}, 1, ""},
		{policy.Target{Group: "apps", Version: "*", Resource: "*"}, 1, ""},
	} {
		e := &Executor{Resources: discovery.New(discoverytest.Broken{Served: "v1 pods Pod\napps/v1 deployments Deployment\n"}, time.Now)}
		var plan Plan
		found := e.resources(&policy.Program{Rules: []*policy.Rule{{Matching: policy.Matching{Targets: []policy.Target{c.target}}}}}, &plan)
		got := ""
		for _, f := range plan.Failures {
			got += f.Err.Error()
			if !f.Later {
				t.Errorf("%s: it is not tried again", c.target.String())
			}
		}
		if len(found) != c.found || got != c.want {
			t.Errorf("%s: %d resources, %q; want %q", c.target.String(), len(found), got, c.want)
		}
	}
}
