package reports

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openreports "ephor.invalid/ephor/api/openreports/v1alpha1"
	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/report"
)

// Form is an API in which reports are written.
type Form struct {
	// Namespaced and Cluster are the resources of the two kinds of reports.
	Namespaced, Cluster schema.GroupVersionResource

	// empty returns a report of its kind without content.
	empty func(meta metav1.ObjectMeta) client.Object
	// fill writes the content into an object that empty returned; content reads it.
	fill    func(client.Object, *policyreport.ReportContent)
	content func(client.Object) *policyreport.ReportContent
}

// PolicyReports is the form wgpolicyk8s.io/v1alpha2, the usual one.
var PolicyReports = Form{
	Namespaced: policyreport.GroupVersion.WithResource("policyreports"),
	Cluster:    policyreport.GroupVersion.WithResource("clusterpolicyreports"),
	empty: func(meta metav1.ObjectMeta) client.Object {
		if meta.Namespace == "" {
			return &policyreport.ClusterPolicyReport{ObjectMeta: meta}
		}
		return &policyreport.PolicyReport{ObjectMeta: meta}
	},
	fill:    func(o client.Object, c *policyreport.ReportContent) { *policyContent(o) = *c },
	content: policyContent,
}

func policyContent(o client.Object) *policyreport.ReportContent {
	if r, ok := o.(*policyreport.PolicyReport); ok {
		return &r.ReportContent
	}
	return &o.(*policyreport.ClusterPolicyReport).ReportContent
}

// OpenReports is the form openreports.io/v1alpha1.
var OpenReports = Form{
	Namespaced: openreports.GroupVersion.WithResource("reports"),
	Cluster:    openreports.GroupVersion.WithResource("clusterreports"),
	empty: func(meta metav1.ObjectMeta) client.Object {
		if meta.Namespace == "" {
			return &openreports.ClusterReport{ObjectMeta: meta}
		}
		return &openreports.Report{ObjectMeta: meta}
	},
	fill:    func(o client.Object, c *policyreport.ReportContent) { *openContent(o) = opened(c) },
	content: func(o client.Object) *policyreport.ReportContent { return closed(openContent(o)) },
}

func openContent(o client.Object) *openreports.ReportContent {
	if r, ok := o.(*openreports.Report); ok {
		return &r.ReportContent
	}
	return &o.(*openreports.ClusterReport).ReportContent
}

// opened converts the content to the form of openreports.io.
func opened(c *policyreport.ReportContent) openreports.ReportContent {
	out := openreports.ReportContent{
		Scope: c.Scope, ScopeSelector: c.ScopeSelector, Summary: openreports.Summary(c.Summary), Results: make([]openreports.Result, len(c.Results)),
	}
	for i := range c.Results {
		r := &c.Results[i]
		out.Results[i] = openreports.Result{
			Source: r.Source, Policy: r.Policy, Rule: r.Rule, Subjects: r.Resources, ResourceSelector: r.ResourceSelector,
			Description: r.Message, Result: openreports.Status(r.Result), Scored: r.Scored, Properties: r.Properties,
			Timestamp: r.Timestamp, Category: r.Category, Severity: openreports.Severity(r.Severity),
		}
	}
	return out
}

// closed is the inverse of opened.
func closed(c *openreports.ReportContent) *policyreport.ReportContent {
	out := &policyreport.ReportContent{
		Scope: c.Scope, ScopeSelector: c.ScopeSelector, Summary: policyreport.Summary(c.Summary), Results: make([]policyreport.Result, len(c.Results)),
	}
	for i := range c.Results {
		r := &c.Results[i]
		out.Results[i] = policyreport.Result{
			Source: r.Source, Policy: r.Policy, Rule: r.Rule, Resources: r.Subjects, ResourceSelector: r.ResourceSelector,
			Message: r.Description, Result: policyreport.Status(r.Result), Scored: r.Scored, Properties: r.Properties,
			Timestamp: r.Timestamp, Category: r.Category, Severity: policyreport.Severity(r.Severity),
		}
	}
	return out
}

// report returns the report of the resource, without content.
func (f *Form) report(r *report.Resource) client.Object {
	return f.empty(metav1.ObjectMeta{
		Name: r.UID, Namespace: r.Namespace, Labels: map[string]string{report.ManagedLabel: report.ManagedValue},
		OwnerReferences: []metav1.OwnerReference{r.Owner()},
	})
}

// intact reports whether the object still has our labels and the resource as owner, and whether its scope and summary are
// correct.
func (f *Form) intact(o client.Object, r *report.Resource) bool {
	c := f.content(o)
	return o.GetLabels()[report.ManagedLabel] == report.ManagedValue && slices.Equal(o.GetOwnerReferences(), []metav1.OwnerReference{r.Owner()}) &&
		c.Scope != nil && *c.Scope == *r.Scope() && c.Summary == report.Summarize(c.Results)
}
