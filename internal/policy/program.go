package policy

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/schedule"
	"ephor.invalid/ephor/internal/world"
)

// Program is one compiled policy. It is immutable after Compile and safe for concurrent use.
type Program struct {
	APIVersion      string
	Kind            string
	Namespace       string // empty for cluster-scoped policies
	Name            string
	UID             string
	Generation      int64
	ResourceVersion string
	Labels          map[string]string
	Annotations     map[string]string

	// Family is the name of the family that compiled the Program.
	Family string
	// Names are the names of the policy in outputs.
	Names    Names
	Settings Settings
	// Webhooks are the webhooks of the policy at the endpoints of its family.
	Webhooks []Webhook
	// Rules are the rules in order of evaluation: each authored rule is followed by its autogen rules.
	Rules []*Rule
	// HandedOver: the API server itself enforces the policy on requests (family.Family.HandedOver).
	HandedOver bool
	// Server is the version of the API server for which the policy was compiled.
	Server kubeversion.Minor
	// Changed says what the last change of the version of the API server changed about the policy; nil for nothing.
	Changed *ServerChange
	// AuditsFirst: the policy reports, and denies and changes nothing (see Program.AuditFirst).
	AuditsFirst bool
	// Unconfined: a namespaced policy that selects objects of every namespace (family.Options.CommandLine).
	Unconfined bool
	// Schedule is the schedule of a policy that deletes resources; nil for others.
	Schedule *schedule.Schedule
	// Held is the estimated memory of its expressions, in bytes (package compilecost).
	Held int64
	// Diags are the mistakes and warnings found by Check and Compile. A Program with errors can still be evaluated: its
	// broken rules evaluate to status error.
	Diags diag.List
}

// ServerChange is what another version of the API server changed about a policy.
type ServerChange struct {
	From, To kubeversion.Minor
	What     []string // one text for each rule or expression
}

// String returns the change as one text.
func (c *ServerChange) String() string {
	return "Kubernetes " + c.From.String() + " became " + c.To.String() + ": " + strings.Join(c.What, "; ")
}

// Key returns `name` for cluster-scoped policies and `namespace/name` for namespaced ones.
func (p *Program) Key() string {
	if p.Namespace == "" {
		return p.Name
	}
	return p.Namespace + "/" + p.Name
}

// OwnWebhook reports whether the policy has its own webhook instead of sharing the one of its failurePolicy. This is the case for a
// policy with match conditions, and for a namespaced policy with a timeout, so that its timeout does not slow down other namespaces.
// fixed means that the webhooks do not follow the policies (--autoUpdateWebhooks=false); then a timeout has no effect.
func (p *Program) OwnWebhook(fixed bool) bool {
	return len(p.Settings.MatchConditions) > 0 || !fixed && p.Namespace != "" && p.Settings.TimeoutSeconds > 0
}

// Reach returns the part of the World that the Program may read: the cluster, or only its own namespace.
func (p *Program) Reach() world.Reach {
	if p.Namespace == "" {
		return world.Cluster()
	}
	return world.InNamespace(p.Namespace)
}

// Registries reports whether a rule reads image registries.
func (p *Program) Registries() bool {
	return slices.ContainsFunc(p.Rules, func(r *Rule) bool { return r.Needs.Registries })
}

// FailurePolicy determines the effect of an evaluation error on the request.
type FailurePolicy uint8

// Fail denies the request on an error (the default); Ignore admits it.
const (
	Fail FailurePolicy = iota
	Ignore
)

func (f FailurePolicy) String() string {
	if f == Ignore {
		return "Ignore"
	}
	return "Fail"
}

// Settings are the policy-wide fields of spec, and the annotations that affect behaviour.
type Settings struct {
	FailurePolicy FailurePolicy
	// TimeoutSeconds is the webhook timeout that the policy sets; 0 if it sets none.
	TimeoutSeconds int32
	ApplyOne       bool // spec.applyRules: One
	Admission      bool
	Background     bool
	EmitWarning    bool
	Scored         bool   // annotation policies.kyverno.io/scored is not "false"
	Severity       string // annotation policies.kyverno.io/severity, if it is a known severity
	Category       string // annotation policies.kyverno.io/category
	// MatchConditions are the CEL conditions of spec.webhookConfiguration (see Program.OwnWebhook).
	MatchConditions []MatchCondition
}

// MatchCondition is a CEL condition of a webhook.
type MatchCondition struct{ Name, Expression string }
