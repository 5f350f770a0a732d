package observe

import "ephor.invalid/ephor/internal/policy"

// Work observes a controller that executes background work.
type Work struct{ *Metrics }

// Evaluated counts the results of background work with the cause background_scan, as Kyverno does, whatever triggered it. The
// results of requests were counted when the requests were evaluated.
func (w Work) Evaluated(out *policy.Outcome) {
	if w.Metrics == nil || len(out.Results) == 0 {
		return
	}
	r := out.Request
	counted := &policy.Request{Review: policy.Review{Origin: policy.FromScan, Operation: r.Operation, GVK: r.GVK, Namespace: r.Namespace, DryRun: r.DryRun}}
	if r.Origin == policy.FromScan {
		counted.Operation = "" // a policy caused the work, not a request
	}
	w.Metrics.Evaluated(&policy.Outcome{Request: counted, Results: out.Results})
}
