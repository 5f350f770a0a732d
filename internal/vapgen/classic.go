package vapgen

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/exception"
	"ephor.invalid/ephor/internal/family/classic"
)

// classicPolicy is a ClusterPolicy with the information that its translation needs.
type classicPolicy struct {
	policy     *kyvernov1.ClusterPolicy
	exceptions []*kyvernov2.PolicyException // the exceptions that name its rule
	resources  discovery.Resources
}

// asksClassic reports whether the policy has a rule that requests a ValidatingAdmissionPolicy. Other policies need no
// explanation.
func asksClassic(object map[string]any) bool {
	p, _ := classic.Decode(object) // the compiler reports what cannot be decoded
	return asks(p)
}

func asks(p *kyvernov1.ClusterPolicy) bool {
	return slices.ContainsFunc(p.Spec.Rules, func(r kyvernov1.Rule) bool {
		return r.Validation != nil && r.Validation.CEL != nil && r.Validation.CEL.Generate != nil && *r.Validation.CEL.Generate
	})
}

// translateClassic translates a ClusterPolicy.
func translateClassic(given Input) (Output, error) {
	p, _ := classic.Decode(given.Object)
	in := &classicPolicy{policy: p, resources: given.Resources}
	for _, e := range given.Exceptions {
		if e.ID().Group == exception.Exceptions.Group {
			decoded, _ := exception.Decode(e.Source()) // the exception was compiled from this object
			in.exceptions = append(in.exceptions, decoded)
		}
	}
	rules, skipped := p.Spec.Rules, Validating.Skipped()
	switch {
	case len(rules) == 0:
		return Output{Reason: skipped + reasonNoRules}, nil
	case len(rules) > 1:
		return Output{Reason: skipped + reasonRules}, nil
	case rules[0].Validation == nil || rules[0].Validation.CEL == nil:
		return Output{Reason: skipped + reasonNotCEL}, nil
	case !asks(p):
		return Output{Reason: skipped + reasonNotAsked}, nil
	case rules[0].Preconditions != nil && len(rules[0].Preconditions.Raw) > 0 && string(rules[0].Preconditions.Raw) != "null":
		return Output{Reason: skipped + reasonPreconditions}, nil
	}
	if reason := inexpressible(given.Exceptions); reason != "" {
		return Output{Reason: skipped + reason}, nil
	}
	enforce, reason := action(&p.Spec, rules[0].Validation)
	var constraints *admissionregistrationv1.MatchResources
	if reason == "" {
		var err error
		if constraints, reason, err = in.constraints(&rules[0]); err != nil {
			return Output{}, err
		}
	}
	if reason != "" {
		return Output{Reason: skipped + reason}, nil
	}
	return Output{Policy: in.native(&rules[0], constraints), Binding: in.binding(rules[0].Validation.CEL, enforce)}, nil
}

// constraints returns the match constraints for a rule.
func (in *classicPolicy) constraints(r *kyvernov1.Rule) (*admissionregistrationv1.MatchResources, string, error) {
	match, reason := matched(r)
	if reason != "" {
		return nil, reason, nil
	}
	out := &admissionregistrationv1.MatchResources{}
	wanted := newRules(in.resources)
	for i := range match {
		d := &match[i].ResourceDescription
		if err := wanted.add(d); err != nil {
			return nil, "", err
		}
		out.ObjectSelector = d.Selector.DeepCopy()
		out.NamespaceSelector = narrowed(d.NamespaceSelector, metav1.LabelSelectorOpIn, d.Namespaces)
	}
	exclude, reason := excluded(r.ExcludeResources, reasonExcludeAll)
	if reason != "" {
		return nil, reason, nil
	}
	for _, e := range in.exceptions {
		more, reason := excepted(e, in.policy.Name)
		if reason != "" {
			return nil, reason, nil
		}
		for _, f := range more {
			if !coversOperations(&f.ResourceDescription, match) {
				f.ResourceDescription.Operations = nil // those of an exception are ignored
			}
			exclude = append(slices.Clip(exclude), f)
		}
	}
	unwanted := newRules(in.resources)
	for i := range exclude {
		d := &exclude[i].ResourceDescription
		if d.IsZero() {
			continue // an empty filter excludes nothing
		}
		if len(d.Namespaces) > 0 {
			if !coversOperations(d, match) {
				return nil, reasonExcludeWithin, nil // a selector is for all operations
			}
			unwanted.addNamespaces(d)
			// The rules exclude the Namespaces themselves, and the selector excludes the objects in them.
			out.NamespaceSelector = narrowed(out.NamespaceSelector, metav1.LabelSelectorOpNotIn, d.Namespaces)
			continue
		}
		if len(d.Kinds) == 0 {
			unwanted.put("*", "*", "*/*", admissionregistrationv1.AllScopes, d, namesOf(d)) // subresources, too
			continue
		}
		if err := unwanted.add(d); err != nil {
			return nil, "", err
		}
	}
	if len(match) > 0 && len(wanted.order) == 0 {
		return nil, reasonClusterScoped, nil
	}
	out.ResourceRules, out.ExcludeResourceRules = wanted.list(), unwanted.list()
	return out, "", nil
}

// coversOperations reports whether an excluding filter is for all operations of the filters.
func coversOperations(exclude *kyvernov1.ResourceDescription, match kyvernov1.ResourceFilters) bool {
	excluded := operationsOf(exclude)
	for i := range match {
		for _, o := range operationsOf(&match[i].ResourceDescription) {
			if !slices.Contains(excluded, o) {
				return false
			}
		}
	}
	return true
}

// narrowed returns a namespace selector that also tests the names.
func narrowed(s *metav1.LabelSelector, op metav1.LabelSelectorOperator, names []string) *metav1.LabelSelector {
	s = s.DeepCopy()
	if len(names) == 0 {
		return s
	}
	if s == nil {
		s = &metav1.LabelSelector{}
	}
	s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: "kubernetes.io/metadata.name", Operator: op, Values: slices.Clone(names),
	})
	return s
}

func (in *classicPolicy) meta(name string) metav1.ObjectMeta {
	return metaOf(kyvernov1.GroupVersion.String(), classic.ClusterPolicy, name, &in.policy.ObjectMeta)
}

func (in *classicPolicy) native(r *kyvernov1.Rule, c *admissionregistrationv1.MatchResources) *admissionregistrationv1.ValidatingAdmissionPolicy {
	cel := r.Validation.CEL.DeepCopy()
	failure := admissionregistrationv1.Fail
	if f := in.failurePolicy(); f != nil && *f == kyvernov1.Ignore {
		failure = admissionregistrationv1.Ignore
	}
	for i := range cel.Expressions {
		e := &cel.Expressions[i]
		if e.Message == "" && e.MessageExpression == "" {
			e.Message = r.Validation.Message
		}
		e.Message = oneLine(e.Message)
	}
	conditions := slices.Clone(r.CELPreconditions)
	if w := in.policy.Spec.WebhookConfiguration; w != nil {
		for _, m := range w.MatchConditions {
			if slices.ContainsFunc(conditions, func(c admissionregistrationv1.MatchCondition) bool { return c.Name == m.Name }) {
				m.Name = fmt.Sprint(m.Name, "-webhook")
			}
			conditions = append(conditions, m)
		}
	}
	meta := in.meta("cpol-" + in.policy.Name)
	withoutReports(&meta, &in.policy.ObjectMeta)
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: meta,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &failure, MatchConstraints: c, Validations: cel.Expressions, ParamKind: cel.ParamKind,
			AuditAnnotations: cel.AuditAnnotations, Variables: cel.Variables, MatchConditions: conditions,
		},
	}
}

func (in *classicPolicy) failurePolicy() *kyvernov1.FailurePolicyType {
	if w := in.policy.Spec.WebhookConfiguration; w != nil && w.FailurePolicy != nil {
		return w.FailurePolicy
	}
	return in.policy.Spec.FailurePolicy
}

func (in *classicPolicy) binding(cel *kyvernov1.CEL, enforce bool) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	actions := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit, admissionregistrationv1.Warn}
	if enforce {
		actions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	}
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: in.meta("cpol-" + in.policy.Name + bindingEnd),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "cpol-" + in.policy.Name, ParamRef: cel.ParamRef.DeepCopy(), ValidationActions: actions,
		},
	}
}
