package rollout

import (
	"time"

	"ephor.invalid/ephor/internal/compliance"
)

// Plan is the information about a policy before it is enforced, as `ephor rollout` prints it.
type Plan struct {
	Policy string `json:"policy"`
	// Action is the current action of the policy for violations: Audit, Enforce, both if rules or namespaces differ, or "" if
	// the policy was not read.
	Action  string     `json:"action,omitempty"`
	Created *time.Time `json:"created,omitempty"`

	Verdict Verdict  `json:"verdict"`
	Reasons []string `json:"reasons"` // why it is not safe, or unknown
	Targets []Target `json:"targets"`

	Namespaces []Namespace `json:"namespaces"`
	// Refused are the resources that Enforce would deny if they were created now; Omitted is the number of resources that are
	// not listed.
	Refused []Refused `json:"refused"`
	Omitted int       `json:"omitted,omitempty"`
	// Callers are the objects whose recorded requests violate the policy.
	Callers []Caller `json:"callers,omitempty"`
	// Lacks lists missing information, with the way to provide it.
	Lacks []Lack `json:"lacks"`

	requests *Requests    // nil without metrics
	results  map[Kind]int // number of resources that have a result
}

// Kind is a kind of resources in any version.
type Kind struct{ Group, Kind string }

// String returns Kind, or Kind.group.
func (k Kind) String() string {
	if k.Group == "" {
		return k.Kind
	}
	return k.Kind + "." + k.Group
}

// Verdict is the conclusion of a plan.
type Verdict string

// The verdicts. Unknown is not safe.
const (
	Safe    Verdict = "safe"
	Unsafe  Verdict = "unsafe"
	Unknown Verdict = "unknown"
)

// Namespace is the effect of Enforce in one namespace; its name is empty for cluster-scoped resources.
type Namespace struct {
	Name   string `json:"name"`
	Action string `json:"action,omitempty"` // the current action
	// Resources is the number of evaluated resources: Violating of them violate the policy, and for Errors of the others some rule
	// could not be evaluated. Exempt is the number of resources that an exception or a precondition skips.
	Resources int `json:"resources"`
	Violating int `json:"violating"`
	Errors    int `json:"errors"`
	Exempt    int `json:"exempt"`
	// Superseded are ReplicaSets of earlier revisions of their Deployments: they are not created again, and do not count.
	Superseded int `json:"superseded,omitempty"`
	// Rate is the percentage of resources that violate the policy.
	Rate float64 `json:"rate"`
	// Requests are the results of requests in the selected time; nil without metrics.
	Requests *Counted `json:"requests,omitempty"`
	Safe     bool     `json:"safe"`
}

// settle computes the derived fields.
func (n *Namespace) settle() {
	n.Rate = 0
	if n.Resources > 0 {
		n.Rate = 100 * float64(n.Violating) / float64(n.Resources)
	}
	n.Safe = n.Violating == 0 && n.Errors == 0 && (n.Requests == nil || n.Requests.rate() < maxRate)
}

// Refused is a resource that Enforce would deny.
type Refused struct {
	Resource compliance.Resource `json:"resource"`
	Rules    []Violation         `json:"rules"`
	// Owner is the end of the chain of ownerReferences: the resource itself if it has no owner, nil if it is unknown.
	Owner *compliance.Resource `json:"owner,omitempty"`
	// Whose is the value of the owner label; empty if no object in the chain has it.
	Whose string `json:"whose,omitempty"`
}

// Violation is a rule that denies.
type Violation struct {
	Rule    string `json:"rule"`
	Message string `json:"message,omitempty"`
}

// Target is a figure of the usual guide. Advice is not part of the verdict.
type Target struct {
	Name   string `json:"name"`
	Want   string `json:"want"`
	Have   string `json:"have"`
	Met    *bool  `json:"met"` // nil if it is unknown
	Advice bool   `json:"advice,omitempty"`
}

// Lack is missing information. Decisive ones make the verdict unknown.
type Lack struct {
	What     string `json:"what"`
	Decisive bool   `json:"decisive,omitempty"`
}

func (p *Plan) lack(decisive bool, what string) {
	p.Lacks = append(p.Lacks, Lack{what, decisive})
}
