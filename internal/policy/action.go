package policy

import (
	"slices"

	"ephor.invalid/ephor/internal/wildcard"
)

// Action is the set of effects that a failed rule has at admission.
type Action uint8

// Deny denies the request. Audit stands for reports and events, which every failure gets; it does not change the answer. Warn adds a
// warning to the answer of an admitted request. The empty set does not change the answer either.
const (
	Deny Action = 1 << iota
	Audit
	Warn
)

// Has reports whether the set has any of the effects.
func (a Action) Has(effects Action) bool { return a&effects != 0 }

// String returns the classic name of the action: Enforce if it denies, otherwise Audit.
func (a Action) String() string {
	if a.Has(Deny) {
		return "Enforce"
	}
	return "Audit"
}

// ErrorMeaning is the effect that a result of status error has on the request.
type ErrorMeaning uint8

// ErrorByAny denies the request if any policy with a result has failurePolicy Fail, as for classic rules: one such policy decides about
// the errors of all policies. ErrorByOwn denies it if the rule's own policy has failurePolicy Fail. ErrorByAction has the effects of a
// failure, except that an unknown answer (Yield.Unknown) does not deny the request if the policy has failurePolicy Ignore.
const (
	ErrorByAny ErrorMeaning = iota
	ErrorByOwn
	ErrorByAction
)

// ActionPlan determines the effective action of a rule: the first override that matches the namespace, or else the default.
type ActionPlan struct {
	Default   Action
	Overrides []ActionOverride
}

// ActionOverride sets the action for some namespaces. Without namespaces and selector it applies to all namespaces; with both, both must
// match.
type ActionOverride struct {
	Action     Action
	Namespaces []string // may contain wildcards
	// Selector evaluates the namespace's labels; nil if the override has none.
	Selector func(labels map[string]string) bool
}

// May reports whether the plan can result in an action with one of the effects in some namespace.
func (p ActionPlan) May(effects Action) bool {
	return p.any(func(a Action) bool { return a.Has(effects) })
}

// MayAllow reports whether the plan can result in an action that does not deny in some namespace.
func (p ActionPlan) MayAllow() bool {
	return p.any(func(a Action) bool { return !a.Has(Deny) })
}

func (p ActionPlan) any(holds func(Action) bool) bool {
	return holds(p.Default) || slices.ContainsFunc(p.Overrides, func(o ActionOverride) bool { return holds(o.Action) })
}

// ActionFor returns the effective action of the rule for an object in namespace ns. labels returns the namespace's labels; it is called
// only if an override needs them. If labels fails, ActionFor returns its error together with the strictest action of the plan, so that the
// rule is evaluated before the request is answered.
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
