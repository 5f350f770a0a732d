package decision

import (
	"time"

	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/policy"
)

// Schema names the version of the schema. Fields may be added to a version; none is removed or changes its meaning.
const Schema = names.Domain + "decision/v1"

// Record is one decided review. Names with dots are those of OpenTelemetry's semantic conventions.
type Record struct {
	// Name of the version of the schema: ephor.dev/decision/v1.
	Schema string `json:"schema" proto:"1"`
	// Time at which the review arrived.
	Time time.Time `json:"time" proto:"2"`
	// How long the answer took, in nanoseconds.
	Duration time.Duration `json:"duration" proto:"3"`
	// UID of the review. The API server gives each webhook a UID of its own.
	UID string `json:"uid" proto:"4"`
	// Kind of the configuration that sent the review: MutatingWebhookConfiguration or ValidatingWebhookConfiguration.
	Webhook string `json:"webhook" proto:"5"`
	// Name of the requester; a keyed digest with --decisionsUsers=hash, absent with --decisionsUsers=false.
	User string `json:"user.name,omitempty" proto:"6"`
	// Groups of the requester, in the same form as the name.
	Groups []string `json:"user.groups,omitempty" proto:"7"`
	// CREATE, UPDATE, DELETE or CONNECT.
	Operation string `json:"operation" proto:"8"`
	// API group of the object; absent for the core group.
	Group string `json:"group,omitempty" proto:"9"`
	// API version of the object.
	Version string `json:"version" proto:"10"`
	// Kind of the object.
	Kind string `json:"kind" proto:"11"`
	// Subresource, such as exec.
	Subresource string `json:"subresource,omitempty" proto:"12"`
	// Namespace of the object.
	Namespace string `json:"k8s.namespace.name,omitempty" proto:"13"`
	// Name of the object; absent if the API server chooses it later.
	Name string `json:"name,omitempty" proto:"14"`
	// Whether the request was a dry run.
	DryRun bool `json:"dryRun,omitempty" proto:"15"`
	// Name of the cluster (--decisionsCluster).
	Cluster string `json:"k8s.cluster.name,omitempty" proto:"24"`
	// The worst verdict that applies to the review.
	Verdict Verdict `json:"verdict" proto:"16"`
	// Whether the request was admitted.
	Allowed bool `json:"allowed" proto:"17"`
	// Message of a denial.
	Message string `json:"message,omitempty" proto:"18"`
	// Share of such reviews that is recorded: a record with 0.01 stands for a hundred reviews.
	Share float64 `json:"share" proto:"19"`
	// Digest of all policies in force: 16 bytes in hex, made with a key of the installation, like the next two.
	Policies string `json:"policies,omitempty" proto:"20,hex"`
	// Digest of the object, or of the old object for a deletion.
	Object string `json:"object,omitempty" proto:"21,hex"`
	// Digest of the answer's patch.
	Patch string `json:"patch,omitempty" proto:"22,hex"`
	// The results of the rules.
	Rules []Result `json:"rules,omitempty" proto:"23"`
	// The request itself, with --decisionsRequests.
	Request *Request `json:"request,omitempty" proto:"25"`
}

// Result is the result of one rule.
type Result struct {
	// Name of the policy; namespace/name for a namespaced policy.
	Policy string `json:"policy" proto:"1"`
	// Name of the rule; absent for policies without rules.
	Rule string `json:"rule,omitempty" proto:"2"`
	// pass, fail, warn, error or skip.
	Status string `json:"status" proto:"3"`
	// What the policy does about a failure, such as Audit or Enforce.
	Action string `json:"action" proto:"4"`
	// Message of the result.
	Message string `json:"message,omitempty" proto:"5"`
	// Place in the object that decided.
	Path string `json:"path,omitempty" proto:"6"`
	// Names of the exceptions that exempt the object.
	Exceptions []string `json:"exceptions,omitempty" proto:"7"`
	// How long the evaluation took, in nanoseconds.
	Duration time.Duration `json:"duration,omitempty" proto:"8"`
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
