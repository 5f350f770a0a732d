package reports

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/rollout"
)

// countDecisions evaluates the requests that admission recorded with the current policy. If a record does not contain its request, the
// recorded results of the rules count.
func (o *rolloutOptions) countDecisions(cmd *cobra.Command, at *rolloutCluster, c *rollout.Collector, now, created time.Time) (diag.List, error) {
	d := decided{policy: o.policy, to: c, created: created, counts: map[sampleKey]float64{}, apart: map[aboutKey]bool{}}
	records := o.decisions.Records(cmd.Context(), terminal.Stdin(cmd.InOrStdin()))
	var diags diag.List
	if at != nil {
		var err error
		if diags, err = o.decisions.Evaluate(cmd.Context(), at.program, records, d.add); err != nil {
			return nil, err
		}
	} else {
		for r := range records {
			e := impact.Evaluated{Record: r, Err: r.Err}
			if e.Err == nil || errors.Is(e.Err, impact.ErrSameRequest) {
				e.Err = decision.ErrNoRequest // without the policy, only the recorded results are known
			}
			d.add(&e)
		}
	}
	if err := cmd.Context().Err(); err != nil {
		return nil, err
	}
	for _, m := range d.unreadable {
		diags.Errorf("", "%s", m)
	}
	since := o.decisions.Since(now)
	if since.IsZero() {
		since = d.first
	}
	window := time.Duration(0)
	if !since.IsZero() {
		if window = now.Sub(since).Truncate(time.Second); window > time.Hour {
			window = window.Truncate(time.Minute)
		}
	}
	requests := rollout.Requests{Window: window, Samples: d.samples(), Lacks: d.lacks()}
	if n := o.decisions.Unasked(); n > 0 {
		requests.Missing = []string{fmt.Sprintf("the requests of %d namespaces: the server leaves them out, since there are too many to check your rights for each; --namespace names some", n)}
	}
	c.Count(requests)
	if d.first.IsZero() && len(d.unreadable) == 0 {
		diags.Add(terminal.NothingChecked("there are no recorded requests", "the admission controller records them with --decisions"))
	}
	return diags, nil
}

// decided counts the results of one policy's rules for recorded requests.
type decided struct {
	policy  string
	to      *rollout.Collector
	created time.Time // the creation time of the policy; zero if unknown
	first   time.Time
	counts  map[sampleKey]float64
	// apart holds the requests that cannot be evaluated again. For these, the recorded results of each review count.
	apart map[aboutKey]bool

	unknown, sampled, earlier, withheld, alike, more int
	unreadable                                       []string
}

// sampleKey holds the properties that the results of one Sample share.
type sampleKey struct{ namespace, rule, result string }

// aboutKey holds the properties that the reviews of one request by several webhooks share.
type aboutKey struct{ user, operation, group, version, kind, subresource, namespace string }

func about(r *decision.Record) aboutKey {
	return aboutKey{r.User, r.Operation, r.Group, r.Version, r.Kind, r.Subresource, r.Namespace}
}

// maxUnreadable is the maximum number of unreadable records that are named.
const maxUnreadable = 20

// add counts one record.
func (d *decided) add(e *impact.Evaluated) {
	r := e.Record.Decision
	switch {
	case r == nil:
		if d.more++; d.more <= maxUnreadable {
			d.unreadable = append(d.unreadable, fmt.Sprintf("%s: %v", e.Record.At, e.Err))
		}
		return
	case r.DryRun:
		return
	}
	namespace := r.Namespace
	if r.Group == "" && r.Kind == "Namespace" {
		namespace = "" // the review of a Namespace has the Namespace itself as its namespace
	}
	if !d.to.In(namespace) {
		return
	}
	if d.first.IsZero() || r.Time.Before(d.first) {
		d.first = r.Time
	}
	early := !d.created.IsZero() && r.Time.Before(d.created)
	results := d.recorded(r)
	switch {
	case e.Err == nil:
		results = d.evaluated(&e.After)
		if early {
			d.earlier++
		}
	case errors.Is(e.Err, impact.ErrSameRequest):
		if errors.Is(e.Err, impact.ErrAlike) {
			d.alike++
		}
		// Either the first review of the request was evaluated, or the review by the policy's own webhook has the recorded results.
		if !d.apart[about(r)] {
			return
		}
	default:
		d.apart[about(r)] = true
		if errors.Is(e.Err, decision.ErrWithheld) {
			d.withheld++
		}
		if len(results) == 0 && early {
			d.unknown++
		}
	}
	stands := 1.0
	if r.Share > 0 && r.Share < 1 {
		stands = 1 / r.Share
	}
	var failed []rollout.Violation
	for _, x := range results {
		d.counts[sampleKey{namespace, x.Rule, x.Status}] += stands
		if x.Status == "fail" || x.Status == "warn" {
			failed = append(failed, rollout.Violation{Rule: x.Rule, Message: x.Message})
		}
	}
	if len(results) > 0 && stands > 1 {
		d.sampled++
	}
	if len(failed) == 0 {
		return
	}
	resource := compliance.Resource{APIVersion: schema.GroupVersion{Group: r.Group, Version: r.Version}.String(), Kind: r.Kind, Namespace: namespace, Name: r.Name}
	var own rollout.Meta
	if e.Request != nil {
		resource, own = impact.Subject(e.Request)
	}
	d.to.Violating(resource, own, r.User, failed)
}

// recorded returns the results of the policy in the record.
func (d *decided) recorded(r *decision.Record) (out []decision.Result) {
	for _, x := range r.Rules {
		if x.Policy == d.policy && x.Status != "skip" {
			out = append(out, x)
		}
	}
	return out
}

// evaluated returns the results of the current policy.
func (d *decided) evaluated(v *impact.Verdict) (out []decision.Result) {
	for i := range v.Results {
		x := &v.Results[i]
		if x.Program.Key() == d.policy && rollout.Enforced(x.Rule) && x.Status != policy.StatusSkip {
			out = append(out, decision.Result{Policy: d.policy, Rule: x.Rule.Name, Status: x.Status.String(), Message: x.Message})
		}
	}
	for range v.Failures {
		out = append(out, decision.Result{Policy: d.policy, Status: "error"})
	}
	return out
}

func (d *decided) samples() (out []rollout.Sample) {
	for k, n := range d.counts {
		labels := map[string]string{"resource_namespace": k.namespace, "rule_result": k.result}
		if k.rule != "" {
			labels["rule_name"] = k.rule
		}
		out = append(out, rollout.Sample{Labels: labels, Value: n})
	}
	return out
}

// lacks describes what the records do not show.
func (d *decided) lacks() (out []string) {
	add := func(n int, what string) {
		if n > 0 {
			out = append(out, fmt.Sprintf(what, n))
		}
	}
	add(d.sampled, "the exact number of requests that passed: there are records of %d, since only a share is recorded (--decisionsShare)")
	add(d.earlier, "all requests from before the policy was in the cluster: %d of them are recorded, but none to which no policy applied")
	add(d.unknown, "the results for %d reviews from before the policy was in the cluster, whose record does not hold the request: --decisionsRequests records it")
	add(d.withheld, "the results of the current policy for %d reviews of objects that you may not list: the results at the time are used")
	add(d.alike, "whether %d reviews belong to separate requests: each is similar to an earlier one (user, object, operation), but came more than a second later, or with another object. They count as the same request")
	add(max(d.more-maxUnreadable, 0), "the contents of %d further records that cannot be read")
	return out
}
