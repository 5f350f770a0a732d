package observe

import "github.com/ephor-dev/ephor/internal/policy"

// Work observes a controller of background work.
type Work struct{ *Metrics }

// Evaluated counts the results of background work under the cause background_scan, as Kyverno does, whatever started it. Results of
// requests were counted when the requests were evaluated.
func (w Work) Evaluated(out *policy.Outcome) {
	if w.Metrics == nil || len(out.Results) == 0 {
		return
	}
	r := out.Request
	counted := &policy.Request{Origin: policy.FromScan, Operation: r.Operation, GVK: r.GVK, Namespace: r.Namespace, DryRun: r.DryRun}
	if r.Origin == policy.FromScan {
		counted.Operation = "" // the cause is a policy, not a request
	}
	w.Metrics.Evaluated(&policy.Outcome{Request: counted, Results: out.Results})
}
