package classic

import (
	"reflect"
	"strconv"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/diag"
)

// Texts of denials and warnings: Kyverno's, verbatim.
const (
	textImmutable = "changes of immutable fields of a rule spec in a generate rule is disallowed"
	textStale     = "no synchronization will be performed to the old target resource upon policy updates: changes in the generate rule pattern could result in stale targets"
)

// CheckUpdate reports forbidden changes of generate rules in an update of a stored policy.
//
// It first compares what the rules generate, as a set. If the new policy no longer generates something that the old one generates, the
// update is admitted with a warning, whatever else changes: the old targets are no longer synchronized. Otherwise the rules may not
// change in any other way, because targets are found by the name and the trigger of their rule. Rules may be added and removed.
func CheckUpdate(old, updated *kyvernov1.ClusterPolicy) diag.List {
	var l diag.List
	before, after := generateRules(old), generateRules(updated)
	for i := range before {
		if !generates(after, before[i].identity) {
			l.Warnf(before[i].newPath(after)+".generate", "%s", textStale)
			l.Hint("delete the old targets by hand, or keep their rule beside the new one")
			return l
		}
	}
	matchCounts := synchronizes(before)
	for i := range before {
		was := &before[i]
		now, renamed := was.successor(before, after)
		switch {
		case now == nil: // the rule was removed
		case renamed:
			l.Errorf(now.path+".name", "%s", textImmutable)
			l.Hint("add a rule with the new name beside the old one, or make a new policy")
		case !reflect.DeepEqual(was.fixed(matchCounts), now.fixed(matchCounts)):
			l.Errorf(now.path, "%s", textImmutable)
			l.Hint("only generate.data, foreach, synchronize, generateExisting and orphanDownstreamOnPolicyDelete may change freely")
		}
	}
	return l
}

// generateRule is a generate rule of a policy and its path.
type generateRule struct {
	*kyvernov1.Rule
	path     string
	identity kyvernov1.GeneratePattern // the target and the source, without the data
}

func generateRules(p *kyvernov1.ClusterPolicy) []generateRule {
	var out []generateRule
	for i := range p.Spec.Rules {
		r := &p.Spec.Rules[i]
		if r.Generation == nil {
			continue
		}
		identity := r.Generation.GeneratePattern
		identity.RawData = nil
		out = append(out, generateRule{Rule: r, path: "spec.rules[" + strconv.Itoa(i) + "]", identity: identity})
	}
	return out
}

func named(rules []generateRule, name string) *generateRule {
	for i := range rules {
		if rules[i].Name == name {
			return &rules[i]
		}
	}
	return nil
}

func generates(rules []generateRule, identity kyvernov1.GeneratePattern) bool {
	for i := range rules {
		if reflect.DeepEqual(rules[i].identity, identity) {
			return true
		}
	}
	return false
}

// synchronizes reports whether any of the rules keeps its targets in sync with their source.
func synchronizes(rules []generateRule) bool {
	for i := range rules {
		if rules[i].Generation.Synchronize {
			return true
		}
	}
	return false
}

// newPath returns the path of an old rule in the new policy. For a removed rule it returns the path of the list of rules.
func (r *generateRule) newPath(after []generateRule) string {
	if now := named(after, r.Name); now != nil {
		return now.path
	}
	return "spec.rules"
}

// successor returns the new version of an old rule: the rule with the same name, or else an added rule that generates the same targets,
// which is a renamed rule. It returns nil for a removed rule.
func (r *generateRule) successor(before, after []generateRule) (now *generateRule, renamed bool) {
	if now = named(after, r.Name); now != nil {
		return now, false
	}
	for i := range after {
		if now = &after[i]; named(before, now.Name) == nil && reflect.DeepEqual(now.identity, r.identity) {
			return now, true
		}
	}
	return nil, false
}

// fixed returns the part of a rule that an update may not change.
func (r *generateRule) fixed(matchCounts bool) kyvernov1.Rule {
	out := *r.Rule
	out.Generation = &kyvernov1.Generation{GeneratePattern: r.identity}
	if !matchCounts {
		out.MatchResources = kyvernov1.MatchResources{}
	}
	return out
}
