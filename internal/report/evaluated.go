package report

import (
	"cmp"

	"ephor.invalid/ephor/internal/policy"
)

// ID identifies a policy as results do.
type ID struct{ Source, Policy string }

// IDOf returns the ID of a Program.
func IDOf(p *policy.Program) ID { return ID{SourceOf(p), p.Key()} }

// RuleIn identifies the rule of a Program.
func RuleIn(p *policy.Program, r *policy.Rule) Rule { return ruleOf(IDOf(p), r.Name) }

// ruleOf identifies the rule of a policy that results call name. Only the policies of one source have several rules. A policy of another
// source is one rule. Its results have the rule's name, the name of a part of the policy (Entry.RuleName), or no name.
func ruleOf(id ID, name string) Rule {
	if id.Source != source {
		name = ""
	}
	return Rule{Source: id.Source, Policy: id.Policy, Name: name}
}

// ID is that of the rule's policy.
func (r Rule) ID() ID { return ID{r.Source, r.Policy} }

// SourceOf returns the source in results of the policy: the engine that it belongs to.
func SourceOf(p *policy.Program) string { return cmp.Or(p.Names.Source, source) }

// Evaluated is the part of a resource's report that an Outcome covers. The zero Evaluated covers all of it.
type Evaluated struct {
	// Policies are the evaluated policies; nil for all policies that scans evaluate.
	Policies map[ID]bool
	// Elsewhere reports whether other processes, such as admission, produce the results of the rule: these stay as they are. Nil for
	// none.
	Elsewhere func(Rule) bool
}

// Replaces reports whether the Outcome replaces the report's results of the rule.
func (j *Evaluated) Replaces(r Rule) bool {
	if j.Policies != nil && !j.Policies[r.ID()] {
		return false
	}
	return j.Elsewhere == nil || !j.Elsewhere(r)
}
