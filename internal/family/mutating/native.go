package mutating

import (
	"context"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/policy"
)

// AsksNative reports whether a policy asks for its conversion to a MutatingAdmissionPolicy of the API server.
func AsksNative(object map[string]any) bool {
	p, _ := Decode(object) // the compiler reports decoding errors
	return Asked(&p.Spec)
}

// Asked is AsksNative for a spec.
func Asked(spec *policiesv1beta1.MutatingPolicySpec) bool {
	a := spec.Autogen
	return a != nil && a.MutatingAdmissionPolicy != nil && a.MutatingAdmissionPolicy.Enabled != nil && *a.MutatingAdmissionPolicy.Enabled
}

// Targeted reports whether the policy specifies which existing objects it changes.
func Targeted(spec *policiesv1beta1.MutatingPolicySpec) bool { return targeted(spec) }

// handOver leaves the mutation of requests to the API server. It does not remove the rules of the Program, since exceptions refer to them.
func handOver(p *policy.Program) {
	p.HandedOver = true
	others := false
	for _, r := range p.Rules {
		if r.Stage != policy.StageMutate {
			others = true
			continue
		}
		r.Match = func(context.Context, *policy.Request) (bool, error) { return false, nil }
	}
	if !others {
		p.Webhooks = nil
	}
}

// handedOver reports whether the API server mutates requests through the MutatingAdmissionPolicy that was generated from the policy.
// This is true if the policy requests the generation and its status confirms it.
func handedOver(object map[string]any) bool {
	status, _ := object["status"].(map[string]any)
	generated, _ := status["generated"].(bool)
	return generated && AsksNative(object)
}
