package mutating

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/family/celpolicy"
)

// Autogen returns the policies generated from a policy, for its status.
func Autogen(p *policiesv1beta1.MutatingPolicy) map[string]policiesv1beta1.MutatingPolicyAutogenConfig {
	var settings *policiesv1beta1.PodControllers
	if p.Spec.Autogen != nil {
		settings = p.Spec.Autogen.PodControllers
	}
	out := map[string]policiesv1beta1.MutatingPolicyAutogenConfig{}
	for _, c := range celpolicy.Configs(p.Spec.MatchConstraints, settings) {
		out[c.Key] = policiesv1beta1.MutatingPolicyAutogenConfig{Targets: c.Targets, Spec: *generated(&p.Spec, c)}
	}
	return out
}

// generated returns the spec of a generated policy. As in Kyverno, only match conditions and apply configurations are rewritten.
func generated(spec *policiesv1beta1.MutatingPolicySpec, c celpolicy.Config) *policiesv1beta1.MutatingPolicySpec {
	out := spec.DeepCopy()
	out.MatchConstraints = c.Constraints
	if c.Template == "" {
		return out
	}
	to := template(strings.Split(c.Template, "."))
	out.MatchConditions = slices.Clone(spec.MatchConditions)
	for i := range out.MatchConditions {
		out.MatchConditions[i].Expression = to.references(out.MatchConditions[i].Expression)
	}
	for i := range out.Mutations {
		if a := out.Mutations[i].ApplyConfiguration; a != nil {
			out.Mutations[i].ApplyConfiguration = &admissionregistrationv1.ApplyConfiguration{Expression: to.configuration(a.Expression)}
		}
	}
	return out
}
