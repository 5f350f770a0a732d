package ephemeral

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// Subject returns what the object was created with, however long the names are; labels hold at most 63 characters.
func TestSubject(t *testing.T) {
	long := strings.Repeat("group.", 15) + "example.com"
	for name, r := range map[string]Report{
		"of the core": {Resource: report.Resource{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "p", UID: "u"}, GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}},
		"of a group": {
			Resource: report.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "ns", Name: "d", UID: "u"},
			GVR:      schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		},
		"a long group": {
			Resource: report.Resource{APIVersion: long + "/v1", Kind: "Foo", Name: "f", UID: "u"},
			GVR:      schema.GroupVersionResource{Group: long, Version: "v1", Resource: "foos"},
		},
		"no UID yet":  {Resource: report.Resource{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "p"}, GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}},
		"no name yet": {Resource: report.Resource{APIVersion: "v1", Kind: "Pod", Namespace: "ns", UID: "u"}, GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}},
		"no resource": {Resource: report.Resource{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "p", UID: "u"}},
	} {
		o, _ := newObject(&r, Admission)
		if got, plural := Subject(o); got != r.Resource || plural != r.GVR.Resource {
			t.Errorf("%s: %+v %s", name, got, plural)
		}
		for key, value := range o.GetLabels() {
			if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
				t.Errorf("%s: label %s: %q %v", name, key, value, errs)
			}
		}
		if owned := len(o.GetOwnerReferences()) == 1; owned != (r.Resource.Name != "" && r.Resource.UID != "") || len(o.GetName()) > 63 {
			t.Errorf("%s: %s, owned %v", name, o.GetName(), owned)
		}
	}
}

func TestPolicyLabels(t *testing.T) {
	p, r := sent(func(p *policy.Program, _ *policy.Rule) { p.Names.LabelPrefix = "cpol.kyverno.io/" })
	got := map[string]string{}
	label(got, &report.Entry{Program: p, Rule: r, Exceptions: []*policy.Exception{{Namespace: "x", Name: "excuse", ResourceVersion: "8"}}})
	local := *p
	local.Names.LabelPrefix, local.Namespace = "pol.kyverno.io/", "ns"
	label(got, &report.Entry{Program: &local, Rule: r})
	local.Name = strings.Repeat("n", 64)
	label(got, &report.Entry{Program: &local, Rule: r})
	if len(got) != 3 || got["cpol.kyverno.io/p"] != "7" || got["polex.kyverno.io/excuse"] != "8" || got["pol.kyverno.io/p"] != "7" {
		t.Errorf("%v", got)
	}
}

// An object stays well below the API server's limit, whatever the messages are.
func TestFillBounds(t *testing.T) {
	r := &Report{Resource: report.Resource{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}}
	for i := range 200 {
		r.Results = append(r.Results, policyreport.Result{Policy: "p", Rule: strings.Repeat("r", i+1), Message: strings.Repeat("é", 4<<10), Result: "fail"})
	}
	_, spec := newObject(r, Admission)
	if !fill(spec, r) || fill(spec, r) {
		t.Error("the first time it changes, the second it does not")
	}
	total := 0
	for _, x := range spec.Results {
		total += len(x.Message)
	}
	if len(spec.Results) != 200 || spec.Summary.Fail != 200 || total > report.MaxTexts {
		t.Errorf("%d results of %d bytes, %+v", len(spec.Results), total, spec.Summary)
	}
}
