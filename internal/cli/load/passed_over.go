package load

import (
	"slices"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
)

// payloadFlag is the flag that gives documents of a sort.
var payloadFlag = map[policy.Payload]string{
	policy.NoPayload: "--resource", policy.JSONPayload: "--json", policy.HTTPPayload: "--http-payload", policy.EnvoyPayload: "--envoy-payload",
}

// PassedOver warns of the policies that are for another sort of input than all of what is given, so that nothing evaluates them. with
// names where such input goes; nil for the flags of the command line.
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
			Severity: diag.Warning, Summary: "the policy " + p.Key() + " is not evaluated: it is for " + wants.String() + ", and none is given",
			Hint: "give some with " + with[wants],
		})
	}
	return out
}

// Given are the sorts of documents that were read.
func Given(payloads []Payload) (out []policy.Payload) {
	for _, p := range payloads {
		if !slices.Contains(out, p.Sort) {
			out = append(out, p.Sort)
		}
	}
	return out
}
