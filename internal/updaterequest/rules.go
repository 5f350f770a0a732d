package updaterequest

import kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"

// Rules returns the rules of an UpdateRequest, each with its trigger. UpdateRequests in the older form have one rule.
func Rules(s *kyvernov2.UpdateRequestSpec) []kyvernov2.RuleContext {
	out := make([]kyvernov2.RuleContext, 0, len(s.RuleContext)+1)
	if len(s.RuleContext) == 0 && s.Rule != "" {
		return append(out, kyvernov2.RuleContext{
			Rule: s.Rule, Trigger: Canonical(s.Resource), Synchronize: s.Synchronize, DeleteDownstream: s.DeleteDownstream,
		})
	}
	for _, r := range s.RuleContext {
		if r.Trigger == (kyvernov2.ResourceSpec{}) {
			r.Trigger = s.Resource
		}
		r.Trigger = Canonical(r.Trigger)
		out = append(out, r)
	}
	return out
}

// Canonical returns the resource in the form from which names are computed. Requests for a Namespace also have it as their namespace, which
// Canonical removes.
func Canonical(r kyvernov2.ResourceSpec) kyvernov2.ResourceSpec {
	if r.APIVersion == "v1" && r.Kind == "Namespace" {
		r.Namespace = ""
	}
	return r
}
