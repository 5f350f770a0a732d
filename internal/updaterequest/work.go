package updaterequest

import (
	"cmp"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
)

// New returns an UpdateRequest for triggers without a request. The worker decides again what to delete.
func New(namespace, policyKey string, kind kyvernov2.RequestType, policyLabel string, rules []kyvernov2.RuleContext, name ...string) *kyvernov2.UpdateRequest {
	u := &kyvernov2.UpdateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: Name(append([]string{string(kind), policyKey}, name...)...),
			Labels: map[string]string{LabelGeneratePolicy: policyLabel},
		},
		Spec: kyvernov2.UpdateRequestSpec{RequestType: kind, Policy: policyKey, Rule: rules[0].Rule, Resource: rules[0].Trigger},
	}
	if Mutates(kind) {
		u.Labels = map[string]string{LabelMutatePolicy: policyLabel}
	}
	for _, r := range rules {
		u.Spec.RuleContext = append(u.Spec.RuleContext, kyvernov2.RuleContext{Rule: r.Rule, Trigger: r.Trigger, Synchronize: r.Synchronize})
	}
	if key := KeyOfRules(u); key != "" {
		u.Labels[LabelKey] = key
	}
	return u
}

// Part returns an UpdateRequest for some rules of another one, or for triggers that its execution found.
func Part(of *kyvernov2.UpdateRequest, why string, rules []kyvernov2.RuleContext) *kyvernov2.UpdateRequest {
	label := cmp.Or(of.Labels[LabelGeneratePolicy], of.Labels[LabelMutatePolicy])
	return New(of.Namespace, of.Spec.Policy, of.Spec.RequestType, label, rules, of.Name, string(of.UID), why, NameOf(rules))
}

// NewForSource returns an UpdateRequest for all copies that a rule made from a changed or deleted source.
func NewForSource(namespace string, p *policy.Program, r *policy.Rule, source kyvernov2.ResourceSpec, gone bool, name ...string) *kyvernov2.UpdateRequest {
	source = Canonical(source)
	u := New(namespace, p.Key(), Type(p.Identity(), r), LabelValue(p.Name), []kyvernov2.RuleContext{{Rule: r.Name, Trigger: source}}, name...)
	u.Labels[LabelSource] = ""
	u.Spec.Rule, u.Spec.Resource = "", source
	u.Spec.RuleContext = []kyvernov2.RuleContext{{Rule: r.Name, Synchronize: true, DeleteDownstream: gone}}
	return u
}

// NameOf returns a part of a name for the rules, so that UpdateRequests of different rules or triggers have different names.
func NameOf(rules []kyvernov2.RuleContext) string {
	parts := make([]string, 0, 2*len(rules))
	for _, r := range rules {
		parts = append(parts, r.Rule, TriggerID(r.Trigger))
	}
	return Name(parts...)
}

// Asked reports whether an admission request caused the work. Another request for the same work may follow.
func Asked(u *kyvernov2.UpdateRequest) bool {
	return u.Spec.Context.AdmissionRequestInfo.AdmissionRequest != nil
}

// OfSource reports whether the work is for all copies of a source.
func OfSource(u *kyvernov2.UpdateRequest) bool {
	_, source := u.Labels[LabelSource]
	return source
}

// SpecOf returns the reference to an object in an UpdateRequest.
func SpecOf(u *unstructured.Unstructured) kyvernov2.ResourceSpec {
	return kyvernov2.ResourceSpec{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID()}
}

// SpecIn returns the reference to an object that a mark names.
func SpecIn(o mark.Object) kyvernov2.ResourceSpec {
	return kyvernov2.ResourceSpec{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: types.UID(o.UID)}
}

// ObjectText returns the text for an object in messages.
func ObjectText(u *unstructured.Unstructured) string { return Text(SpecOf(u)) }

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

// Reference returns the reference to an object of an UpdateRequest for an event.
func Reference(r kyvernov2.ResourceSpec) event.Reference {
	return event.Reference{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: string(r.UID)}
}

// Controller returns the name of the controller that reports events about a rule's work.
func Controller(r *policy.Rule) string {
	if r.Generation == nil {
		return event.MutateController
	}
	return event.GenerateController
}

// Parallel calls f for each number below n, at most width of them at a time, and returns when all have ended.
func Parallel(n, width int, f func(i int)) {
	slots := make(chan struct{}, width)
	var running sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	running.Wait()
}
