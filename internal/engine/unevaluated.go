package engine

import (
	"fmt"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// unevaluated groups the rules of one policy that are not evaluated because its budget is exhausted. Rules with the same consequences share
// one result; otherwise a policy with hundreds of rules would cost more in results, events and metrics than its budget allows.
type unevaluated struct {
	groups [maxGroups]group
	used   int
}

// maxGroups bounds the groups of one policy: two actions for each stage, and a few more. Each rule beyond them has its own result.
const maxGroups = 8

// group holds the rules that share one result.
type group struct {
	key    consequence
	rule   *policy.Rule // the rule that the result names
	result int          // its index in the outcome
	more   int          // the number of further rules
}

// consequence is the effect of an unevaluated rule's result.
type consequence struct {
	stage         policy.Stage
	action        policy.Action
	allowExisting bool
}

// add adds the rule to its group, and reports whether the group already has a result. A rule with an unknown action has its own result.
func (u *unevaluated) add(rule *policy.Rule, action policy.Action, actionErr error) bool {
	if actionErr != nil {
		return false
	}
	key := consequence{rule.Stage, action, rule.AllowExisting}
	for i := range u.groups[:u.used] {
		if g := &u.groups[i]; g.key == key {
			g.more++
			return true
		}
	}
	if u.used < maxGroups {
		u.groups[u.used] = group{key: key, rule: rule, result: -1}
		u.used++
	}
	return false
}

// recorded records the index of a rule's result, if the rule represents a group.
func (u *unevaluated) recorded(index int, rule *policy.Rule) {
	for i := range u.groups[:u.used] {
		if u.groups[i].rule == rule {
			u.groups[i].result = index
		}
	}
}

// annotate adds to each result the number of further rules that it represents.
func (u *unevaluated) annotate(out *policy.Outcome) {
	for _, g := range u.groups[:u.used] {
		if g.more == 0 || g.result < 0 || g.result >= len(out.Results) {
			continue
		}
		r := &out.Results[g.result]
		r.Message = value.Message(fmt.Sprintf("%s (the policy has %d more rules that were not evaluated)", r.Message, g.more))
	}
}
