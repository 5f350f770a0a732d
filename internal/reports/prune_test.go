package reports

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/scan"
)

// table has a rule that scans evaluate, and one that they do not.
var table = scan.Rules{{Policy: "scanned"}: {{}}, {Policy: "admission"}: nil}

// Which reports hold outdated results: for scanned kinds, results of deleted rules; for other kinds also results of scans, and unknown
// results.
func TestStale(t *testing.T) {
	rule := func(policies ...string) (out []*report.Rule) {
		for _, p := range policies {
			out = append(out, &report.Rule{Policy: p})
		}
		return out
	}
	w := New(Options{})
	known := map[string]*state{
		"pod":                   {kind: "Pod", loaded: true, parts: []part{1}},
		"pod-mixed":             {kind: "Pod", loaded: true, parts: []part{1}, others: rule("admission", "scanned")},
		"pod-gone":              {kind: "Pod", loaded: true, others: rule("admission", "gone")},
		"pod-unknown":           {kind: "Pod"},
		"secret-of-admission":   {kind: "Secret", loaded: true, others: rule("admission")},
		"secret-scanned-before": {kind: "Secret", loaded: true, parts: []part{1}},
		"secret-of-scans":       {kind: "Secret", loaded: true, others: rule("scanned")},
		"secret-gone":           {kind: "Secret", loaded: true, others: rule("gone")},
		"secret-unknown":        {kind: "Secret"},
		"nobody-knows-of-what":  {},
	}
	for name, st := range known {
		w.known[types.NamespacedName{Name: name}] = st
	}
	got := w.stale(func(gk schema.GroupKind) bool { return gk.Kind == "Pod" }, table)
	want := "pod-gone secret-gone secret-of-scans secret-scanned-before secret-unknown"
	var all []string
	for key := range got {
		all = append(all, key.Name)
	}
	slices.Sort(all)
	if names := strings.Join(all, " "); names != want {
		t.Errorf("stale are %s, want %s", names, want)
	}
}

// A report that another client deletes or changes while it is being written is written again, and one that the write itself deleted is not.
func TestSeenDuringAWrite(t *testing.T) {
	resource := &report.Resource{APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: "p", UID: "u"}
	event := func(version string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "u", Namespace: "n", ResourceVersion: version}}
	}
	for _, c := range []struct {
		name    string
		during  func(*Writer)
		written string // the version after the write; empty if it deleted the report
		again   bool
		known   bool
	}{
		{"deleted after our write", func(w *Writer) { w.saw(event("5")); w.missed(event("6")) }, "5", true, false},
		{"deleted before our write, which made it again", func(w *Writer) { w.missed(event("4")) }, "5", false, true},
		{"deleted by our write", func(w *Writer) { w.missed(event("6")) }, "", false, false},
		{"deleted and made again by another client", func(w *Writer) { w.missed(event("6")); w.saw(event("7")) }, "5", true, true},
		{"changed by another client", func(w *Writer) { w.saw(event("6")) }, "5", true, true},
		{"nothing but our write", func(w *Writer) { w.saw(event("5")) }, "5", false, true},
	} {
		again := false
		w := New(Options{Again: func(schema.GroupKind, string) { again = true }})
		st := w.begin(resource)
		c.during(w)
		st.version = c.written
		w.end(resource, st)
		if known := w.known[reportOf(resource)] != nil; again != c.again || known != c.known {
			t.Errorf("%s: evaluated again %v, known %v", c.name, again, known)
		}
	}
}

// How the results of a report are handled when some policies were evaluated again.
func TestSplit(t *testing.T) {
	results := []policyreport.Result{{Policy: "scanned"}, {Policy: "admission"}, {Policy: "gone"}}
	names := func(all []policyreport.Result) string {
		var out []string
		for _, r := range all {
			out = append(out, r.Policy)
		}
		return strings.Join(out, " ")
	}
	elsewhere := func(at report.Rule) bool { return table.Elsewhere(schema.GroupKind{}, at) }
	for _, c := range []struct {
		name                string
		evaluated           report.Evaluated
		unevaluated, others string
	}{
		{"by nobody else", report.Evaluated{}, "", ""},
		{"all", report.Evaluated{Elsewhere: elsewhere}, "", "admission"},
		{"one", report.Evaluated{Elsewhere: elsewhere, Policies: map[report.ID]bool{{Policy: "gone"}: true}}, "scanned", "admission"},
	} {
		h := split(results, &c.evaluated)
		if names(h.unevaluated) != c.unevaluated || names(h.others) != c.others {
			t.Errorf("%s: not evaluated %q, of others %q", c.name, names(h.unevaluated), names(h.others))
		}
	}
}

// A report in the other form has the same content.
func TestForms(t *testing.T) {
	w := New(Options{})
	for name, form := range map[string]Form{"wgpolicyk8s.io": PolicyReports, "openreports.io": OpenReports} {
		for _, ns := range []string{"", "ns"} {
			r := &report.Resource{APIVersion: "v1", Kind: "Pod", Namespace: ns, Name: "p", UID: "u"}
			content := policyreport.ReportContent{Scope: r.Scope(), Summary: policyreport.Summary{Fail: 1}, Results: []policyreport.Result{{
				Source: "kyverno", Policy: "p", Rule: "r", Message: "m", Result: "fail", Scored: true, Properties: map[string]string{"k": "v"}, Category: "c", Severity: "low",
			}}}
			o := form.report(r)
			form.fill(o, &content)
			back := form.content(o)
			if !form.intact(o, r) || o.GetName() != "u" || o.GetNamespace() != ns || back.Summary != content.Summary || *back.Scope != *content.Scope ||
				!slices.Equal(w.numbers.parts(r, back.Results), w.numbers.parts(r, content.Results)) {
				t.Errorf("%s: %+v", name, o)
			}
			for what, edit := range map[string]func(*policyreport.ReportContent){
				"summary": func(c *policyreport.ReportContent) { c.Summary.Pass = 7 },
				"scope":   func(c *policyreport.ReportContent) { c.Scope = nil },
			} {
				edited := content
				edit(&edited)
				form.fill(o, &edited)
				if form.intact(o, r) {
					t.Errorf("%s: with another %s it counts as ours", name, what)
				}
			}
		}
	}
}
