package report

// The names of openreports that Kyverno's command line prints, also for namespaced policies.
const (
	apiVersion        = "openreports.io/v1alpha1"
	kindCluster       = "ClusterReport"
	kindNamespaced    = "PolicyReport"
	mergedName        = "merged"
	source            = "kyverno"
	separator         = "---\n"
	emptyLine         = "\n"
	jsonSpacePerEntry = 400
)

// Report is a report to print.
type Report struct {
	Kind, Name, Namespace string
	Entries               []*Entry
}

// Summary counts the report's entries.
func (r *Report) Summary() Summary {
	var s Summary
	for _, e := range r.Entries {
		s.Add(e.Status)
	}
	return s
}

// Merge returns the reports of `apply --policy-report`: one of all cluster-scoped policies (if they have any entry), then one for
// each namespaced policy and resource. Entries of one policy and resource must be adjacent.
func Merge(entries []Entry) []Report {
	merged := Report{Kind: kindCluster, Name: mergedName}
	var namespaced []Report
	for i := range entries {
		e := &entries[i]
		if e.Program.Namespace == "" {
			merged.Entries = append(merged.Entries, e)
			continue
		}
		if n := len(namespaced); n > 0 {
			last := namespaced[n-1].Entries[0]
			if last.Program == e.Program && last.Resource == e.Resource {
				namespaced[n-1].Entries = append(namespaced[n-1].Entries, e)
				continue
			}
		}
		namespaced = append(namespaced, Report{
			Kind: kindNamespaced, Name: e.Program.Name, Namespace: e.Program.Namespace, Entries: []*Entry{e},
		})
	}
	if len(merged.Entries) == 0 {
		return namespaced
	}
	return append([]Report{merged}, namespaced...)
}

// Empty returns the report of a run in which no rule applied to anything.
func Empty() Report { return Report{Kind: kindCluster, Name: mergedName} }
