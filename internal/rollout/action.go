package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/policy"
)

// Enforced reports whether Enforce denies violations of the rule; rules that mutate or generate are not affected.
func Enforced(r *policy.Rule) bool {
	return r.Stage.Has(policy.StageValidate | policy.StageVerifyImages)
}

// actions returns the current actions of the rules for violations in a namespace, one by one and in words.
func (c *Collector) actions(ctx context.Context, namespace string, p *Plan) (byRule map[string]policy.Action, all string) {
	if c.options.Program == nil {
		return nil, ""
	}
	byRule = map[string]policy.Action{}
	for _, r := range c.options.Program.Rules {
		if !Enforced(r) {
			continue
		}
		action, err := policy.ActionFor(r, namespace, func() (map[string]string, error) {
			if namespace == "" || c.options.NamespaceLabels == nil {
				return nil, nil
			}
			return c.options.NamespaceLabels(ctx, namespace)
		})
		if err != nil {
			p.lack(false, fmt.Sprintf("today's action in the namespace %s: %v", namespace, err))
			return nil, ""
		}
		byRule[r.Name] = action
	}
	return byRule, words(slices.Collect(maps.Values(byRule))...)
}

// policyAction returns the policy's action for violations in any namespace.
func policyAction(p *policy.Program) string {
	var seen []policy.Action
	for _, r := range p.Rules {
		if !Enforced(r) {
			continue
		}
		seen = append(seen, r.Action.Default)
		for _, o := range r.Action.Overrides {
			seen = append(seen, o.Action)
		}
	}
	return words(seen...)
}

// words names each action once, Audit first.
func words(actions ...policy.Action) string {
	var out []string
	for _, a := range []policy.Action{policy.Audit, policy.Deny} {
		if slices.ContainsFunc(actions, func(b policy.Action) bool { return a.Has(policy.Deny) == b.Has(policy.Deny) }) {
			out = append(out, a.String())
		}
	}
	return strings.Join(out, ", ")
}
