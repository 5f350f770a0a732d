package load

import (
	"slices"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
)

// payloadFlag maps each type of documents to its flag.
var payloadFlag = map[policy.Payload]string{
	policy.NoPayload: "--resource", policy.JSONPayload: "--json", policy.HTTPPayload: "--http-payload", policy.EnvoyPayload: "--envoy-payload",
}

// PassedOver warns of policies for a type of input that was not given, since they are not evaluated. with names the places for each
// type of input; nil means the flags of the command line.
func PassedOver(programs []*policy.Program, given []policy.Payload, with map[policy.Payload]string) (out diag.List) {
	if len(given) == 0 {
		return nil
	}
	if with == nil {
		with = payloadFlag
	}
	for _, p := range programs {
		if len(p.Rules) == 0 || slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool { return slices.ContainsFunc(given, r.IsFor) }) {
			continue
		}
		wants := p.Rules[0].Payload
		out.Add(diag.Diagnostic{
			Severity: diag.Warning, Code: diag.Unchecked, Summary: "the policy " + p.Key() + " is not evaluated: it is for " + wants.String() + ", and none is given",
			Hint: "give some with " + with[wants],
		})
	}
	return out
}

// Given returns the types of the documents that were read.
func Given(payloads []Payload) (out []policy.Payload) {
	for _, p := range payloads {
		if !slices.Contains(out, p.Sort) {
			out = append(out, p.Sort)
		}
	}
	return out
}
