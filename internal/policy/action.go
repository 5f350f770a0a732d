package policy

import (
	"slices"

	"github.com/ephor-dev/ephor/internal/wildcard"
)

// Action is what a failed rule means at admission: a set of effects.
type Action uint8

// Deny denies the request. Audit stands for reports and events, which every failure gets; it has no effect on the answer. Warn adds a
// warning to the answer of an allowed request. The empty set has no effect on the answer either.
const (
	Deny Action = 1 << iota
	Audit
	Warn
)

// Has reports whether the set has any of the effects.
func (a Action) Has(effects Action) bool { return a&effects != 0 }

// String returns the classic name of the action: Enforce if it denies, else Audit.
func (a Action) String() string {
	if a.Has(Deny) {
		return "Enforce"
	}
	return "Audit"
}

// ErrorMeaning is what a result of status error means for the request.
type ErrorMeaning uint8

// ErrorByAny denies the request if some policy with a result has failurePolicy Fail, as for classic rules: one such policy decides about
// the errors of all. ErrorByOwn denies it if the rule's own policy has failurePolicy Fail. ErrorByAction has the effects of a failure, but
// an unknown answer (Yield.Unknown) denies nothing if the policy has failurePolicy Ignore.
const (
	ErrorByAny ErrorMeaning = iota
	ErrorByOwn
	ErrorByAction
)

// ActionPlan is the effective action of a rule: the first matching override by namespace, else the default.
type ActionPlan struct {
	Default   Action
	Overrides []ActionOverride
}

// ActionOverride sets the action for some namespaces. With neither namespaces nor selector it covers all namespaces; with both, both must
// match.
type ActionOverride struct {
	Action     Action
	Namespaces []string // wildcards
	// Selector evaluates the namespace's labels; nil if the override has none.
	Selector func(labels map[string]string) bool
}

// May reports whether the plan can yield an action with one of the effects for some namespace.
func (p ActionPlan) May(effects Action) bool {
	return p.any(func(a Action) bool { return a.Has(effects) })
}

// MayAllow reports whether the plan can yield an action that does not deny for some namespace.
func (p ActionPlan) MayAllow() bool {
	return p.any(func(a Action) bool { return !a.Has(Deny) })
}

func (p ActionPlan) any(holds func(Action) bool) bool {
	return holds(p.Default) || slices.ContainsFunc(p.Overrides, func(o ActionOverride) bool { return holds(o.Action) })
}

// ActionFor returns the effective action of the rule for an object in namespace ns. labels returns the namespace's labels; it is called
// only when an override needs them. After an error of labels, ActionFor returns it with the strictest action of the plan, so that the rule
// is evaluated before the answer.
func ActionFor(r *Rule, ns string, labels func() (map[string]string, error)) (Action, error) {
	for _, o := range r.Action.Overrides {
		if len(o.Namespaces) > 0 && !wildcard.MatchAny(o.Namespaces, ns) {
			continue
		}
		if o.Selector != nil {
			l, err := labels()
			if err != nil {
				if r.Action.May(Deny) {
					return Deny, err
				}
				return Audit, err
			}
			if !o.Selector(l) {
				continue
			}
		}
		return o.Action, nil
	}
	return r.Action.Default, nil
}
