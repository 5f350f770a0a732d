package reports

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/scan"
)

// Policies that another client makes up in a report take no memory: namespaces have admins who may write reports.
func TestPoliciesOfOthersTakeNoMemory(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := policyreport.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	w := New(Options{Client: c, Form: PolicyReports, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	ours := []policyreport.Result{result("x", "fail", 10)}
	write := func() {
		t.Helper()
		if _, err := w.put(t.Context(), &pod, ours, &report.Evaluated{}); err != nil {
			t.Fatal(err)
		}
	}
	write()
	for i := range 3 {
		var o policyreport.PolicyReport
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "u"}, &o); err != nil {
			t.Fatal(err)
		}
		for j := range 5 {
			o.Results = append(o.Results, policyreport.Result{Policy: fmt.Sprintf("made-up-%d-%d", i, j), Result: "pass"})
		}
		if err := c.Update(t.Context(), &o); err != nil {
			t.Fatal(err)
		}
		w.forgetContent(reportOf(&pod))
		write()
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "u"}, &o); err != nil || len(o.Results) != 1 {
			t.Fatalf("the report has %d results, %v", len(o.Results), err)
		}
		o.Results = append(o.Results, policyreport.Result{Policy: fmt.Sprint("others-", i), Result: "pass"})
		if err := c.Update(t.Context(), &o); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Add(t.Context(), &pod, []policyreport.Result{result("y", "fail", 10)}); err != nil {
			t.Fatal(err)
		}
		w.forgetContent(reportOf(&pod))
		write()
	}
	if n := len(w.numbers.of); n != 1 {
		t.Errorf("%d policies are remembered, want one", n)
	}
}

// A report in another namespace under the name of a report of ours changes nothing that is known of ours, wherever it comes first.
func TestReportsOfOtherNamespacesWithOneName(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := policyreport.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	forged := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "u", ResourceVersion: "1000", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Made-up", Name: "x", UID: "x",
	}}}}
	for name, first := range map[string]bool{"before ours": true, "after ours": false} {
		c := fake.NewClientBuilder().WithScheme(scheme).Build()
		w := New(Options{Client: c, Form: PolicyReports, Again: func(schema.GroupKind, string) {}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		if first {
			w.saw(forged)
		}
		if _, err := w.put(t.Context(), &pod, []policyreport.Result{result("x", "fail", 10)}, &report.Evaluated{}); err != nil {
			t.Fatal(err)
		}
		if !first {
			w.saw(forged)
		}
		r := pod
		r.Name = "an older name"
		if there := w.name(&r); !there || r.Name != pod.Name {
			t.Errorf("%s: the resource is called %q, known: %v", name, r.Name, there)
		}
		pods := func(gk schema.GroupKind) bool { return gk.Kind == "Pod" }
		if err := w.Prune(t.Context(), pods, scan.Rules{{Policy: "p", Name: "x"}: {{}}}, nil); err != nil {
			t.Fatal(err)
		}
		w.missed(forged)
		var o policyreport.PolicyReport
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "u"}, &o); err != nil || len(o.Results) != 1 {
			t.Errorf("%s: the report has %d results, %v", name, len(o.Results), err)
		}
		if !w.name(&r) {
			t.Errorf("%s: our report is not known any more", name)
		}
	}
}
