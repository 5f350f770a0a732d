package report

import (
	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/policy"
)

// ID names a policy as results do.
type ID struct{ Source, Policy string }

// IDOf is the ID of a Program.
func IDOf(p *policy.Program) ID { return ID{SourceOf(p), p.Key()} }

// RuleIn is the rule as results name it.
func RuleIn(p *policy.Program, r *policy.Rule) Rule {
	id := IDOf(p)
	return Rule{id.Source, id.Policy, r.Name}
}

// ID is that of the rule's policy.
func (r Rule) ID() ID { return ID{r.Source, r.Policy} }

// Sources of results: the engine that a policy belongs to.
const (
	SourceKyverno  = source
	SourceNative   = "ValidatingAdmissionPolicy"
	SourceMutating = "MutatingAdmissionPolicy"
)

// SourceOf is what results of the policy name as their source.
func SourceOf(p *policy.Program) string {
	if k := compile.Kinds.Named(p.Kind); k != nil {
		return k.Source
	}
	return SourceKyverno
}

// Evaluated says what of a resource's report an Outcome covers. The zero Evaluated covers all of it.
type Evaluated struct {
	// Policies are those that were evaluated; nil for all that scans evaluate.
	Policies map[ID]bool
	// Elsewhere reports whether results of the rule are found elsewhere, by admission for instance: they stay as they are.
	// Nil for none.
	Elsewhere func(Rule) bool
}

// Replaces reports whether results of the rule that a report holds are replaced by those of the Outcome.
func (j *Evaluated) Replaces(r Rule) bool {
	if j.Policies != nil && !j.Policies[r.ID()] {
		return false
	}
	return j.Elsewhere == nil || !j.Elsewhere(r)
}
