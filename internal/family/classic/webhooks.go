package classic

import "ephor.invalid/ephor/internal/policy"

// Endpoints are the endpoints of the webhooks for policies of the family.
var Endpoints = []policy.Endpoint{
	{Kinds: []string{ClusterPolicy, Policy}, Name: "validate.kyverno.svc", Path: "/validate", Stages: policy.StageValidate | policy.StageGenerate | policy.StageMutateExisting},
	{Kinds: []string{ClusterPolicy, Policy}, Name: "mutate.kyverno.svc", Path: "/mutate", Mutating: true, Stages: policy.StageMutate | policy.StageVerifyImages},
}

// The stages that the two endpoints evaluate, and the default operations of their filters.
var (
	validates     = policy.Webhook{Endpoint: &Endpoints[0], Brings: policy.StageValidate | policy.StageMutateExisting, Operations: allOperations}
	mutates       = policy.Webhook{Endpoint: &Endpoints[1], Brings: policy.StageMutate | policy.StageVerifyImages, Operations: allOperations[:2]}
	allOperations = []policy.Operation{policy.Create, policy.Update, policy.Delete, policy.Connect}
)

// Webhooks returns the webhooks of a Program, as in Kyverno. Generate rules belong to the validating webhook.
func Webhooks(p *policy.Program) (out []policy.Webhook) {
	var stages policy.Stage
	for _, r := range p.Rules {
		stages |= r.Stage
	}
	var own policy.OwnReason
	switch {
	case len(p.Settings.MatchConditions) > 0:
		own = policy.OwnConditions
	case p.OwnWebhook(false):
		own = policy.OwnTimeout
	}
	add := func(w policy.Webhook) {
		w.Own, w.Conditions = own, p.Settings.MatchConditions
		out = append(out, w)
	}
	if stages.Has(validates.Brings | policy.StageGenerate) {
		add(validates)
	}
	if stages.Has(mutates.Brings) {
		add(mutates)
	}
	return out
}
