package reports

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/value"
)

// A report stays below the API server's limit of 1.5 MB, whatever the messages and properties of its results quote from the resource. It is not
// written again when nothing changes.
func TestLargeReports(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := policyreport.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("é", value.MaxMessage/2)
	for name, large := range map[string]func(*policyreport.Result){
		"messages":   func(r *policyreport.Result) { r.Message = long },
		"properties": func(r *policyreport.Result) { r.Properties = map[string]string{"quoted": long, "short": "x"} },
	} {
		var results []policyreport.Result
		for i := range 250 {
			r := result(fmt.Sprint("rule-", i), "fail", 10)
			large(&r)
			results = append(results, r)
		}
		for way, write := range map[string]func(*Writer) (bool, error){
			"of a scan":    func(w *Writer) (bool, error) { return w.put(t.Context(), &pod, results, &report.Evaluated{}) },
			"of admission": func(w *Writer) (bool, error) { return w.Add(t.Context(), &pod, results) },
		} {
			c := fake.NewClientBuilder().WithScheme(scheme).Build()
			w := New(Options{Client: c, Form: PolicyReports, Log: slog.New(slog.DiscardHandler), Now: time.Now})
			if changed, err := write(w); err != nil || !changed {
				t.Fatal(changed, err)
			}
			var o policyreport.PolicyReport
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "u"}, &o); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(&o)
			if err != nil || len(text) > 1<<20 || len(o.Results) != len(results) || o.Summary.Fail != len(results) {
				t.Errorf("%s %s: %d bytes, %d results, %+v, %v", name, way, len(text), len(o.Results), o.Summary, err)
			}
			w.forgetContent(reportOf(&pod))
			if changed, err := write(w); err != nil || changed {
				t.Errorf("%s %s: it was written again: %v, %v", name, way, changed, err)
			}
		}
		if got := results[0]; got.Message != long && got.Properties["quoted"] != long {
			t.Errorf("%s: the results of the caller were changed", name)
		}
	}
}
