package report

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	policyreport "github.com/ephor-dev/ephor/api/policyreport/v1alpha2"
	"github.com/ephor-dev/ephor/internal/policy"
)

// maxMessage bounds the message of a result in a stored report, in bytes: a report holds the results of many rules, and
// the API server takes no object of more than 1.5 MB.
const maxMessage = 8 << 10

// ManagedLabel and ManagedValue mark the reports that we write.
const (
	ManagedLabel = "app.kubernetes.io/managed-by"
	ManagedValue = "kyverno"
)

// Results are the entries as a stored report of one resource holds them (control plane reference §6.4). seconds is the time
// of the results, since 1970. Entries of resources are left out where the rule gives several of them: the report's scope
// names the one it is about.
func Results(entries []Entry, seconds int64) []policyreport.Result {
	out := make([]policyreport.Result, len(entries))
	for i := range entries {
		e := &entries[i]
		at := RuleIn(e.Program, e.Rule)
		out[i] = policyreport.Result{
			Source: at.Source, Policy: at.Policy, Rule: at.Name, Message: cut(e.ReportMessage()),
			Result: policyreport.Status(e.Status.String()), Scored: e.Program.Settings.Scored, Properties: e.ReportProperties(),
			Timestamp: metav1.Timestamp{Seconds: seconds},
			Category:  e.Program.Settings.Category, Severity: policyreport.Severity(e.Program.Settings.Severity),
		}
	}
	Sort(out)
	return out
}

// cut shortens a text to maxMessage bytes, between letters.
func cut(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	end := maxMessage - len("...")
	for end > 0 && text[end]&0xc0 == 0x80 {
		end--
	}
	return text[:end] + "..."
}

// Scope is the reference to the resource that a report of one resource is about.
func (r *Resource) Scope() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: types.UID(r.UID)}
}

// Owner makes a report go away with the resource.
func (r *Resource) Owner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: types.UID(r.UID)}
}

// Allowed are the statuses whose results are reported.
type Allowed map[policy.Status]bool

// Keep leaves out the entries that are not reported: those of other statuses. A nil Allowed keeps all.
func (a Allowed) Keep(entries []Entry) []Entry {
	if a == nil {
		return entries
	}
	return slices.DeleteFunc(entries, func(e Entry) bool { return !a[e.Status] })
}
