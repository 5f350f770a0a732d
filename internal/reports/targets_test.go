package reports

import (
	"testing"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/report"
)

// The result about a target of work stays beside the results of scans, until a scan has a result of the same policy about the resource.
func TestResultsAboutTargets(t *testing.T) {
	d := newDesk(t)
	of := func(policy, rule string, status policyreport.Status, seconds int64) policyreport.Result {
		out := result(rule, status, seconds)
		out.Source, out.Policy = "KyvernoMutatingPolicy", policy
		return out
	}
	send := func(status policyreport.Status, seconds int64) {
		t.Helper()
		target := of("changes", "evaluation", status, seconds)
		target.Properties = map[string]string{report.TargetProperty: "true"}
		d.send(t, target)
		if n, again, err := d.consume(t); n != 0 || again != 0 || err != nil {
			t.Fatalf("%d reports are left, %v, %v", n, again, err)
		}
	}
	evaluated := &report.Evaluated{Elsewhere: func(r report.Rule) bool { return r.Target && r.Policy == "changes" }}
	scan := func(results ...policyreport.Result) {
		t.Helper()
		if _, err := d.o.Writer.put(t.Context(), &pod, results, evaluated); err != nil {
			t.Fatal(err)
		}
	}
	says := func(when, want string) {
		t.Helper()
		if got := d.says(t); got != want {
			t.Errorf("%s: the report has %q, want %q", when, got, want)
		}
	}
	send("pass", 10)
	says("alone", "evaluation=pass@10")
	scan(of("other", "x", "fail", 20))
	says("after a scan without a result of the policy", "evaluation=pass@10 x=fail@20")
	send("error", 30)
	says("after the next change", "evaluation=error@30 x=fail@20")
	scan(of("changes", "", "fail", 40), of("other", "x", "fail", 40))
	says("after a scan with a result of the policy", "=fail@40 x=fail@40")
	send("pass", 50)
	says("after a change of what scans report", "=fail@40 x=fail@40")
	scan(of("changes", "", "pass", 60), of("other", "x", "fail", 60))
	says("after the scan of the change", "=pass@60 x=fail@60")
	scan(of("other", "x", "fail", 70))
	says("when the policy does not select the resource any more", "x=fail@70")
	send("pass", 80)
	says("as a target only", "evaluation=pass@80 x=fail@70")
}
