package decision

import (
	"time"

	"ephor.invalid/ephor/internal/policy"
)

// Schema names the version of the schema. Fields may be added to a version; none is removed or changes its meaning.
const Schema = "ephor.dev/decision/v1"

// Record is one decided review. Names with dots are those of OpenTelemetry's semantic conventions.
type Record struct {
	Schema string `json:"schema"`
	// Time is the time at which the review arrived; Duration is how long the answer took, in nanoseconds.
	Time     time.Time     `json:"time"`
	Duration time.Duration `json:"duration"`
	UID      string        `json:"uid"`
	// Webhook is the kind of configuration that sent the review: MutatingWebhookConfiguration or ValidatingWebhookConfiguration.
	Webhook     string   `json:"webhook"`
	User        string   `json:"user.name,omitempty"`
	Groups      []string `json:"user.groups,omitempty"`
	Operation   string   `json:"operation"`
	Group       string   `json:"group,omitempty"`
	Version     string   `json:"version"`
	Kind        string   `json:"kind"`
	Subresource string   `json:"subresource,omitempty"`
	Namespace   string   `json:"k8s.namespace.name,omitempty"`
	Name        string   `json:"name,omitempty"`
	DryRun      bool     `json:"dryRun,omitempty"`
	// Cluster is the name of the cluster, if one is set.
	Cluster string `json:"k8s.cluster.name,omitempty"`
	// Verdict is the worst of Verdicts that applies to the review; Allowed is the answer.
	Verdict Verdict `json:"verdict"`
	Allowed bool    `json:"allowed"`
	// Message is the message of a refusal.
	Message string `json:"message,omitempty"`
	// Share is the share of such reviews that is kept: a record with 0.01 represents a hundred reviews.
	Share float64 `json:"share"`
	// Policies is the digest of all policies in force, Object the digest of the object (the old one for a deletion), Patch the digest of the
	// answer's patch. Each has 16 bytes in hex, made with a key of the installation.
	Policies string   `json:"policies,omitempty"`
	Object   string   `json:"object,omitempty"`
	Patch    string   `json:"patch,omitempty"`
	Rules    []Result `json:"rules,omitempty"`
	// Request is the request itself; nil unless requests are recorded.
	Request *Request `json:"request,omitempty"`
}

// Result is the result of one rule.
type Result struct {
	Policy     string        `json:"policy"`
	Rule       string        `json:"rule,omitempty"`
	Status     string        `json:"status"`
	Action     string        `json:"action"`
	Message    string        `json:"message,omitempty"`
	Path       string        `json:"path,omitempty"`
	Exceptions []string      `json:"exceptions,omitempty"`
	Duration   time.Duration `json:"duration,omitempty"`
}

// Verdict is the outcome of a review.
type Verdict string

// The verdicts, the worst first. Erred: a rule ended in an error, and the request was admitted. Violating: a rule failed, and the request was
// admitted.
const (
	Refused   Verdict = "refused"
	Erred     Verdict = "erred"
	Violating Verdict = "violating"
	Warned    Verdict = "warned"
	Changed   Verdict = "changed"
	Exempt    Verdict = "exempt"
	Passed    Verdict = "passed"
)

// Verdicts lists all verdicts.
var Verdicts = []Verdict{Refused, Erred, Violating, Warned, Changed, Exempt, Passed}

// Review is an answered review, as admission passes it on. The data that it refers to no longer changes.
type Review struct {
	Request *policy.Request
	Webhook string
	policy.Decision
	// Patch is the JSON patch of the answer; nil for none.
	Patch []byte
	// Results has the results of all rules that were evaluated.
	Results []policy.Result
	At      time.Time
	Took    time.Duration
	// Policies is the digest of the policies in force.
	Policies [16]byte
}

// verdict returns the worst verdict that applies to the review.
func (r *Review) verdict() Verdict {
	failed, exempt := false, false
	if !r.Allowed {
		return Refused
	}
	for i := range r.Results {
		switch x := &r.Results[i]; {
		case x.Status == policy.StatusError:
			return Erred
		case x.Status == policy.StatusFail:
			failed = true
		case len(x.Exceptions) > 0:
			exempt = true
		}
	}
	switch {
	case failed:
		return Violating
	case len(r.Warnings) > 0:
		return Warned
	case r.Patch != nil:
		return Changed
	case exempt:
		return Exempt
	}
	return Passed
}
