package observe

import "github.com/ephor-dev/ephor/internal/policy"

// Work observes a controller that carries out what was asked for.
type Work struct{ *Metrics }

// Evaluated counts the results of background work, under the cause that Kyverno's users know for it, background_scan,
// whatever started it. Results of requests were counted when the requests were evaluated.
func (w Work) Evaluated(out *policy.Outcome) {
	if w.Metrics == nil || len(out.Results) == 0 {
		return
	}
	r := out.Request
	counted := &policy.Request{Origin: policy.FromScan, Operation: r.Operation, GVK: r.GVK, Namespace: r.Namespace, DryRun: r.DryRun}
	if r.Origin == policy.FromScan {
		counted.Operation = "" // a policy asked for it, and no request
	}
	w.Metrics.Evaluated(&policy.Outcome{Request: counted, Results: out.Results})
}
