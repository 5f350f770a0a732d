package vapgen

import (
	"cmp"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/family/mutating"
)

// The reasons why a MutatingPolicy is not translated; the first is Kyverno's text. They follow Native.Skipped.
const (
	reasonAtomic  = ": useServerSideApply is enabled, which mutates atomic fields that a native MutatingAdmissionPolicy rejects."
	reasonTargets = ": targetMatchConstraints select the resources that are changed."
)

// translateMutating translates a MutatingPolicy.
func translateMutating(in Input) (Output, error) {
	p, _ := mutating.Decode(in.Object)
	spec := &p.Spec
	if reason := untranslatable(spec); reason != "" {
		return Output{Reason: Mutating.Skipped() + reason}, nil
	}
	s, err := translateShared(spec.MatchConstraints, spec.MatchConditions, spec.Variables, in, true)
	switch {
	case err != nil:
		return Output{}, err
	case s.undefined != "":
		return Output{Reason: Mutating.Skipped() + s.undefined}, nil
	}
	failure := admissionregistrationv1.Fail
	if f := spec.FailurePolicy; f != nil {
		failure = *f
	}
	name := "mpol-" + p.Name
	out := &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metaOf(celAPIVersion, mutating.Kind, name, &p.ObjectMeta),
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy: &failure, MatchConstraints: s.constraints, MatchConditions: slices.Concat(s.exempting, s.conditions),
			ReinvocationPolicy: cmp.Or(spec.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy),
		},
	}
	withoutReports(&out.ObjectMeta, &p.ObjectMeta)
	for i := range spec.Mutations {
		m := spec.Mutations[i].DeepCopy()
		if a := m.ApplyConfiguration; a != nil {
			a.Expression = s.body.expression(a.Expression)
		}
		if j := m.JSONPatch; j != nil {
			j.Expression = s.body.expression(j.Expression)
		}
		out.Spec.Mutations = append(out.Spec.Mutations, *m)
	}
	s.finish()
	out.Spec.Variables = s.variables
	if why := refused(Mutating.Kind, out); why != "" {
		return Output{Reason: Mutating.Skipped() + ": " + why}, nil
	}
	return Output{Policy: out, Binding: &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metaOf(celAPIVersion, mutating.Kind, name+bindingEnd, &p.ObjectMeta),
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	}}, nil
}

// untranslatable returns the reason why a policy cannot be translated; empty if it can.
func untranslatable(spec *policiesv1beta1.MutatingPolicySpec) (reason string) {
	e := spec.Evaluation
	switch {
	case !mutating.Asked(spec):
		return reasonNotEnabled
	case e != nil && e.Mode != "" && e.Mode != policiesv1beta1.EvaluationModeKubernetes:
		return reasonMode
	case len(celpolicy.Configs(spec.MatchConstraints, spec.Autogen.PodControllers)) > 0:
		return reasonAutogen
	case e != nil && e.UseServerSideApply != nil && *e.UseServerSideApply:
		return reasonAtomic
	case mutating.Targeted(spec):
		return reasonTargets
	case useVariables(spec.MatchConditions):
		return reasonVariables
	}
	return ""
}
