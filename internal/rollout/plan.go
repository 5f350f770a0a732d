package rollout

import (
	"time"

	"github.com/ephor-dev/ephor/internal/compliance"
)

// Plan is what is known about a policy before it is enforced, as `ephor rollout` prints it.
type Plan struct {
	Policy string `json:"policy"`
	// Action is what the policy does today with violations: Audit, Enforce, both in different rules or namespaces, or "" when
	// the policy was not read.
	Action  string     `json:"action,omitempty"`
	Created *time.Time `json:"created,omitempty"`

	Verdict Verdict  `json:"verdict"`
	Reasons []string `json:"reasons"` // why it is not safe, or not known
	Targets []Target `json:"targets"`

	Namespaces []Namespace `json:"namespaces"`
	// Refused are the resources that Enforce would refuse, were they created today; Omitted is how many are not listed.
	Refused []Refused `json:"refused"`
	Omitted int       `json:"omitted,omitempty"`
	// Callers are those whose recorded requests violate the policy.
	Callers []Caller `json:"callers,omitempty"`
	// Lacks are the lines that could not be filled, with what would fill them.
	Lacks []Lack `json:"lacks"`

	requests *Requests    // nil without metrics
	results  map[Kind]int // resources that have a result
}

// Kind is a kind of resources, whatever its version.
type Kind struct{ Group, Kind string }

// String is Kind, or Kind.group.
func (k Kind) String() string {
	if k.Group == "" {
		return k.Kind
	}
	return k.Kind + "." + k.Group
}

// Verdict is the answer.
type Verdict string

// The answers. Unknown is not safe.
const (
	Safe    Verdict = "safe"
	Unsafe  Verdict = "unsafe"
	Unknown Verdict = "unknown"
)

// Namespace is what Enforce would mean in one namespace; its name is empty for resources that lie in none.
type Namespace struct {
	Name   string `json:"name"`
	Action string `json:"action,omitempty"` // today's
	// Resources were evaluated: Violating of them violate the policy, and for Errors some rule could not be evaluated.
	// Exempt are resources that are not evaluated because of an exception or a precondition.
	Resources int `json:"resources"`
	Violating int `json:"violating"`
	Errors    int `json:"errors"`
	Exempt    int `json:"exempt"`
	// Superseded are ReplicaSets of earlier revisions of their Deployments: they are not created again, and do not count.
	Superseded int `json:"superseded,omitempty"`
	// Rate is the share of the resources that violate the policy, in percent.
	Rate float64 `json:"rate"`
	// Requests are those of the time that was asked for; nil without metrics.
	Requests *Counted `json:"requests,omitempty"`
	Safe     bool     `json:"safe"`
}

// settle computes what follows from the counts.
func (n *Namespace) settle() {
	n.Rate = 0
	if n.Resources > 0 {
		n.Rate = 100 * float64(n.Violating) / float64(n.Resources)
	}
	n.Safe = n.Violating == 0 && n.Errors == 0 && (n.Requests == nil || n.Requests.rate() < maxRate)
}

// Refused is a resource that Enforce would refuse.
type Refused struct {
	Resource compliance.Resource `json:"resource"`
	Rules    []Violation         `json:"rules"`
	// Owner is the end of the chain of ownerReferences: the resource itself if it has no owner, nil when it was not found out.
	Owner *compliance.Resource `json:"owner,omitempty"`
	// Whose is the value of the owner label; empty when nothing on the chain has it.
	Whose string `json:"whose,omitempty"`
}

// Violation is a rule that refuses.
type Violation struct {
	Rule    string `json:"rule"`
	Message string `json:"message,omitempty"`
}

// Target is a figure of the usual guide. Advice is not part of the verdict.
type Target struct {
	Name   string `json:"name"`
	Want   string `json:"want"`
	Have   string `json:"have"`
	Met    *bool  `json:"met"` // nil when it is not known
	Advice bool   `json:"advice,omitempty"`
}

// Lack is something that is not known. Decisive ones make the verdict unknown.
type Lack struct {
	What     string `json:"what"`
	Decisive bool   `json:"decisive,omitempty"`
}

func (p *Plan) lack(decisive bool, what string) {
	p.Lacks = append(p.Lacks, Lack{what, decisive})
}
