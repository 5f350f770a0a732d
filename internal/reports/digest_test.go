package reports

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/report"
)

// Only the times of a report may differ without being a change.
func TestParts(t *testing.T) {
	n := numbers{of: map[report.ID]uint64{}, ids: map[uint64]report.ID{}}
	of := func(change func(r *report.Resource, results []policyreport.Result) []policyreport.Result) []part {
		r := report.Resource{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}
		results := []policyreport.Result{{
			Policy: "a", Rule: "r", Message: "m", Result: "fail", Scored: true, Properties: map[string]string{"k": "v", "l": "w"},
			Timestamp: metav1.Timestamp{Seconds: 1},
		}, {Policy: "b"}}
		results = change(&r, results)
		return n.parts(&r, results)
	}
	type change = func(r *report.Resource, results []policyreport.Result) []policyreport.Result
	set := func(f func(r *report.Resource, first *policyreport.Result)) change {
		return func(r *report.Resource, results []policyreport.Result) []policyreport.Result {
			f(r, &results[0])
			return results
		}
	}
	nothing := set(func(*report.Resource, *policyreport.Result) {})
	base := of(nothing)
	for name, c := range map[string]struct {
		change change
		same   bool
	}{
		"nothing":    {nothing, true},
		"time":       {set(func(_ *report.Resource, r *policyreport.Result) { r.Timestamp.Seconds = 2 }), true},
		"owner":      {set(func(o *report.Resource, _ *policyreport.Result) { o.Name = "x" }), false},
		"no results": {func(*report.Resource, []policyreport.Result) []policyreport.Result { return nil }, false},
		"fewer":      {func(_ *report.Resource, r []policyreport.Result) []policyreport.Result { return r[1:] }, false},
		"message":    {set(func(_ *report.Resource, r *policyreport.Result) { r.Message = "n" }), false},
		"result":     {set(func(_ *report.Resource, r *policyreport.Result) { r.Result = "warn" }), false},
		"scored":     {set(func(_ *report.Resource, r *policyreport.Result) { r.Scored = false }), false},
		"severity":   {set(func(_ *report.Resource, r *policyreport.Result) { r.Severity = "low" }), false},
		"properties": {set(func(_ *report.Resource, r *policyreport.Result) { r.Properties["k"] = "x" }), false},
		"source":     {set(func(_ *report.Resource, r *policyreport.Result) { r.Source = "x" }), false},
	} {
		if got := slices.Equal(of(c.change), base); got != c.same {
			t.Errorf("%s: says the same: %v, want %v", name, got, c.same)
		}
	}
	if got := n.only(base, map[report.ID]bool{{Policy: "b"}: true}); len(got) != 1 || got[0].policy() != n.number(report.ID{Policy: "b"}) {
		t.Errorf("of one policy %v, among %v", got, base)
	}
}

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"", "1", false}, {"2", "2", false}, {"10", "9", true}, {"9", "10", false}, {"x", "9", true}, {"9", "?", true}, {"1", "", true}} {
		if got := newer(c.a, c.b); got != c.want {
			t.Errorf("newer(%q, %q) is %v", c.a, c.b, got)
		}
	}
}
