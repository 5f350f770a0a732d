package reports

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyreport "github.com/ephor-dev/ephor/api/policyreport/v1alpha2"
)

// Times alone are no change of a report; everything else is.
func TestDigest(t *testing.T) {
	of := func(change func(o *metav1.OwnerReference, c *policyreport.ReportContent)) uint64 {
		o := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}
		c := policyreport.ReportContent{
			Scope: &corev1.ObjectReference{Kind: "Pod", Name: "p"}, Summary: policyreport.Summary{Fail: 1},
			Results: []policyreport.Result{{
				Policy: "a", Rule: "r", Message: "m", Result: "fail", Scored: true, Properties: map[string]string{"k": "v", "l": "w"},
				Timestamp: metav1.Timestamp{Seconds: 1},
			}},
		}
		change(&o, &c)
		return digest(o, &c)
	}
	base := of(func(*metav1.OwnerReference, *policyreport.ReportContent) {})
	for name, c := range map[string]struct {
		change func(o *metav1.OwnerReference, c *policyreport.ReportContent)
		same   bool
	}{
		"nothing":    {func(*metav1.OwnerReference, *policyreport.ReportContent) {}, true},
		"time":       {func(_ *metav1.OwnerReference, c *policyreport.ReportContent) { c.Results[0].Timestamp.Seconds = 2 }, true},
		"owner":      {func(o *metav1.OwnerReference, _ *policyreport.ReportContent) { o.UID = "x" }, false},
		"scope":      {func(_ *metav1.OwnerReference, c *policyreport.ReportContent) { c.Scope = nil }, false},
		"summary":    {func(_ *metav1.OwnerReference, c *policyreport.ReportContent) { c.Summary.Fail = 0 }, false},
		"no results": {func(_ *metav1.OwnerReference, c *policyreport.ReportContent) { c.Results = nil }, false},
		"message":    {func(_ *metav1.OwnerReference, c *policyreport.ReportContent) { c.Results[0].Message = "n" }, false},
		"result":     {func(_ *metav1.OwnerReference, c *policyreport.ReportContent) { c.Results[0].Result = "warn" }, false},
		"scored":     {func(_ *metav1.OwnerReference, c *policyreport.ReportContent) { c.Results[0].Scored = false }, false},
		"severity":   {func(_ *metav1.OwnerReference, c *policyreport.ReportContent) { c.Results[0].Severity = "low" }, false},
		"properties": {func(_ *metav1.OwnerReference, c *policyreport.ReportContent) { c.Results[0].Properties["k"] = "x" }, false},
	} {
		if got := of(c.change) == base; got != c.same {
			t.Errorf("%s: says the same: %v, want %v", name, got, c.same)
		}
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
