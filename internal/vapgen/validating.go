package vapgen

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/family/validating"
)

func asksValidating(object map[string]any) bool {
	p, _ := validating.Decode(object) // the compiler reports what cannot be decoded
	return asked(p)
}

func asked(p *policiesv1beta1.ValidatingPolicy) bool {
	a := p.Spec.Autogen
	return a != nil && a.ValidatingAdmissionPolicy != nil && a.ValidatingAdmissionPolicy.Enabled != nil && *a.ValidatingAdmissionPolicy.Enabled
}

// translateValidating translates a ValidatingPolicy. As in Kyverno, it does not copy failurePolicy: that decides about errors of its
// conditions and of the webhook, while an error of a validation always denies.
func translateValidating(in Input) (Output, error) {
	p, _ := validating.Decode(in.Object)
	spec := &p.Spec
	skipped := Validating.Skipped()
	switch {
	case !asked(p):
		return Output{Reason: skipped + reasonNotEnabled}, nil
	case spec.Evaluation != nil && spec.Evaluation.Mode != "" && spec.Evaluation.Mode != policiesv1beta1.EvaluationModeKubernetes:
		return Output{Reason: skipped + reasonMode}, nil
	case p.Annotations[celpolicy.ActionsAnnotation] != "":
		return Output{Reason: skipped + reasonActions}, nil
	case len(celpolicy.Configs(spec.MatchConstraints, spec.Autogen.PodControllers)) > 0:
		return Output{Reason: skipped + reasonAutogen}, nil
	case useVariables(spec.MatchConditions):
		return Output{Reason: skipped + reasonVariables}, nil
	}
	s, err := translateShared(spec.MatchConstraints, spec.MatchConditions, spec.Variables, in, false)
	switch {
	case err != nil:
		return Output{}, err
	case s.undefined != "":
		return Output{Reason: skipped + s.undefined}, nil
	}
	fail := admissionregistrationv1.Fail
	name := "vpol-" + p.Name
	out := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metaOf(celAPIVersion, validating.Kind, name, &p.ObjectMeta),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail, MatchConstraints: s.constraints, MatchConditions: slices.Concat(s.conditions, s.exempting),
		},
	}
	withoutReports(&out.ObjectMeta, &p.ObjectMeta)
	for _, v := range spec.Validations {
		v.Expression, v.MessageExpression = s.body.expression(v.Expression), s.body.expression(v.MessageExpression)
		v.Message = oneLine(v.Message)
		out.Spec.Validations = append(out.Spec.Validations, v)
	}
	for _, a := range spec.AuditAnnotations {
		a.ValueExpression = s.body.expression(a.ValueExpression)
		out.Spec.AuditAnnotations = append(out.Spec.AuditAnnotations, a)
	}
	s.finish()
	out.Spec.Variables = s.variables
	if why := refused(Validating.Kind, out); why != "" {
		return Output{Reason: skipped + ": " + why}, nil
	}
	return Output{Policy: out, Binding: &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metaOf(celAPIVersion, validating.Kind, name+bindingEnd, &p.ObjectMeta),
		Spec:       admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: actionsOf(spec.ValidationActions)},
	}}, nil
}

// oneLine returns a message with blanks instead of line breaks, which the API server rejects. A message of blanks becomes empty.
func oneLine(message string) string {
	if trimmed := strings.TrimSpace(message); trimmed == "" || strings.ContainsAny(trimmed, "\r\n") {
		return strings.Join(strings.Fields(message), " ")
	}
	return message
}

// actionsOf returns the actions of the binding. The API server rejects Warn together with Deny, since a denial already has the
// message.
func actionsOf(all []admissionregistrationv1.ValidationAction) []admissionregistrationv1.ValidationAction {
	if len(all) == 0 {
		return []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	}
	if !slices.Contains(all, admissionregistrationv1.Deny) {
		return slices.Clone(all)
	}
	return slices.DeleteFunc(slices.Clone(all), func(a admissionregistrationv1.ValidationAction) bool { return a == admissionregistrationv1.Warn })
}
