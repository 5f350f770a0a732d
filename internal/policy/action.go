package policy

import (
	"github.com/ephor-dev/ephor/internal/wildcard"
)

// Action is what a failed rule means at admission.
type Action uint8

// Audit only records a failure (the default); Enforce refuses the request.
const (
	Audit Action = iota
	Enforce
)

func (a Action) String() string {
	if a == Enforce {
		return "Enforce"
	}
	return "Audit"
}

// ActionPlan is the effective action of a rule: overrides by namespace, first hit wins, then the default.
type ActionPlan struct {
	Default   Action
	Overrides []ActionOverride
}

// ActionOverride sets the action for some namespaces. With neither namespaces nor selector it covers everything; with
// both, both must hold.
type ActionOverride struct {
	Action     Action
	Namespaces []string // wildcards
	// Selector evaluates the namespace's labels; nil when the override has none.
	Selector func(labels map[string]string) bool
}

// MayEnforce reports whether the plan can yield Enforce for some namespace.
func (p ActionPlan) MayEnforce() bool {
	if p.Default == Enforce {
		return true
	}
	for _, o := range p.Overrides {
		if o.Action == Enforce {
			return true
		}
	}
	return false
}

// ActionFor is the effective action of the rule for an object in namespace ns. labels gives the namespace's labels and
// is called only when an override asks for them; its error is returned, with the strictest action that the plan may
// yield, so that what could not be found out is evaluated before the answer and not after it.
func ActionFor(r *Rule, ns string, labels func() (map[string]string, error)) (Action, error) {
	for _, o := range r.Action.Overrides {
		if len(o.Namespaces) > 0 && !wildcard.MatchAny(o.Namespaces, ns) {
			continue
		}
		if o.Selector != nil {
			l, err := labels()
			if err != nil {
				if r.Action.MayEnforce() {
					return Enforce, err
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
