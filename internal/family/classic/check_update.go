package classic

import (
	"reflect"
	"strconv"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	"github.com/ephor-dev/ephor/internal/diag"
)

// Texts of §13.8, verbatim.
const (
	textImmutable = "changes of immutable fields of a rule spec in a generate rule is disallowed"
	textStale     = "no synchronization will be performed to the old target resource upon policy updates: changes in the generate rule pattern could result in stale targets"
)

// CheckUpdate finds what an update of a stored policy may not change (§13.8): who triggers a generate rule, since what it
// generated is found again by its trigger. Where it generates to may change, with a warning: what is there already stays
// behind. Rules may come and go, and whether a rule synchronizes may change.
func CheckUpdate(old, updated *kyvernov1.ClusterPolicy) diag.List {
	var l diag.List
	before := generateRules(old)
	after := generateRules(updated)
	for i := range updated.Spec.Rules {
		r := &updated.Spec.Rules[i]
		path := "spec.rules[" + strconv.Itoa(i) + "]"
		if r.Generation == nil {
			continue
		}
		was, known := before[r.Name]
		if !known {
			// A rule under a new name is a renamed one when one of the old names is gone and nothing was added.
			if len(before) > 0 && len(before) == len(after) {
				l.Errorf(path+".name", "%s", textImmutable)
				l.Hint("add a rule with the new name beside the old one, or make a new policy")
			}
			continue
		}
		if !reflect.DeepEqual(withoutGeneration(was), withoutGeneration(r)) {
			l.Errorf(path, "%s", textImmutable)
			l.Hint("only generate.data, synchronize, generateExisting and orphanDownstreamOnPolicyDelete may change freely")
			continue
		}
		if !reflect.DeepEqual(identities(was.Generation), identities(r.Generation)) {
			l.Warnf(path+".generate", "%s", textStale)
		}
	}
	return l
}

func generateRules(p *kyvernov1.ClusterPolicy) map[string]*kyvernov1.Rule {
	out := map[string]*kyvernov1.Rule{}
	for i := range p.Spec.Rules {
		if r := &p.Spec.Rules[i]; r.Generation != nil {
			out[r.Name] = r
		}
	}
	return out
}

func withoutGeneration(r *kyvernov1.Rule) *kyvernov1.Rule {
	out := *r
	out.Generation = nil
	return &out
}

// identities are the patterns of a rule without their data: where the targets are, and their sources.
func identities(g *kyvernov1.Generation) []kyvernov1.GeneratePattern {
	out := []kyvernov1.GeneratePattern{g.GeneratePattern}
	for i := range g.ForEachGeneration {
		out = append(out, g.ForEachGeneration[i].GeneratePattern)
	}
	for i := range out {
		out[i].RawData = nil
	}
	return out
}
