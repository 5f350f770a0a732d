package reports

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/report"
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
		w.forgetContent("u")
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
		w.forgetContent("u")
		write()
	}
	if n := len(w.numbers.of); n != 1 {
		t.Errorf("%d policies are remembered, want one", n)
	}
}
