package report

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// ManagedLabel and ManagedValue mark the reports that Ephor writes.
const (
	ManagedLabel = "app.kubernetes.io/managed-by"
	ManagedValue = "kyverno"
)

// Results returns the entries as results of a stored report. seconds is the time of the results, since 1970. The results do not repeat
// the resource, because the report's scope names it.
func Results(entries []Entry, seconds int64) []policyreport.Result {
	out := make([]policyreport.Result, len(entries))
	for i := range entries {
		e := &entries[i]
		id := IDOf(e.Program)
		out[i] = policyreport.Result{
			Source: id.Source, Policy: id.Policy, Rule: e.RuleName(), Message: value.Message(e.ReportMessage()),
			Result: policyreport.Status(e.Status.String()), Scored: e.Program.Settings.Scored, Properties: e.ReportProperties(),
			Timestamp: metav1.Timestamp{Seconds: seconds},
			Category:  e.Program.Settings.Category, Severity: policyreport.Severity(e.Program.Settings.Severity),
		}
	}
	Sort(out)
	return out
}

// Scope returns the reference to the resource of a report.
func (r *Resource) Scope() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: types.UID(r.UID)}
}

// Owner returns the owner reference by which a report is deleted with its resource.
func (r *Resource) Owner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: types.UID(r.UID)}
}

// Allowed are the statuses whose results are reported.
type Allowed map[policy.Status]bool

// Filter drops the entries whose status is not reported. A nil Allowed keeps all.
func (a Allowed) Filter(entries []Entry) []Entry {
	if a == nil {
		return entries
	}
	return slices.DeleteFunc(entries, func(e Entry) bool { return !a[e.Status] })
}
