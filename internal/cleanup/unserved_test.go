package cleanup

import (
	"testing"

	"ephor.invalid/ephor/internal/discovery"
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
	found, err := e.resources(&policy.Program{Rules: []*policy.Rule{{Matching: policy.Matching{Targets: targets, Labels: "a=b"}}}}, &plan)
	if err != nil {
		t.Fatal(err)
	}
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
