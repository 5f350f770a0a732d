package engine

import (
	"fmt"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
)

// unevaluated groups the rules of one policy that are not evaluated because its budget is used up. Rules with the same consequences share
// one result; otherwise a policy of hundreds of rules would cost more in results, events and metrics than its budget allows.
type unevaluated struct {
	groups [maxGroups]group
	used   int
}

// maxGroups is how many groups one policy may have: two actions for each stage, and a few more. A rule beyond them gets a result
// of its own.
const maxGroups = 8

// group is the rules that share one result.
type group struct {
	key    consequence
	rule   *policy.Rule // the one that the result names
	result int          // its index in the outcome
	more   int          // rules besides it
}

// consequence is what the result of an unevaluated rule leads to.
type consequence struct {
	stage         policy.Stage
	action        policy.Action
	allowExisting bool
}

// add puts the rule into its group, and reports whether the group has a result already. A rule whose action is not known has a result of
// its own.
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

// recorded notes the index of the result of a rule, when the rule stands for a group.
func (u *unevaluated) recorded(index int, rule *policy.Rule) {
	for i := range u.groups[:u.used] {
		if u.groups[i].rule == rule {
			u.groups[i].result = index
		}
	}
}

// annotate adds to the results the number of further rules that they stand for.
func (u *unevaluated) annotate(out *policy.Outcome) {
	for _, g := range u.groups[:u.used] {
		if g.more == 0 || g.result < 0 || g.result >= len(out.Results) {
			continue
		}
		r := &out.Results[g.result]
		r.Message = value.Message(fmt.Sprintf("%s (the policy has %d more rules that were not evaluated)", r.Message, g.more))
	}
}
