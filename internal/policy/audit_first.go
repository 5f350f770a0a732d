package policy

import "context"

// AuditFirst returns the Program for a policy that audits until it is released: it reports what it finds, and changes and denies nothing.
// Its rules that validate objects audit, and its failure policy is Ignore. Its other rules match nothing and it has no schedule. Rules that
// generate stay, because the objects of a rule that is gone are deleted.
func (p *Program) AuditFirst() *Program {
	out := *p
	out.AuditsFirst, out.Schedule, out.HandedOver = true, nil, false
	out.Settings.FailurePolicy = Ignore
	out.Rules = make([]*Rule, len(p.Rules))
	for i, r := range p.Rules {
		r := *r
		if r.Stage == StageValidate && !r.VerifiesImages {
			r.Action = ActionPlan{Default: Audit}
		} else {
			r.Match = func(context.Context, *Request) (bool, error) { return false, nil }
			r.OnPolicyChange = false
			if r.Generation != nil {
				r.Generation = &Generation{Orphan: true}
			}
		}
		out.Rules[i] = &r
	}
	return &out
}
