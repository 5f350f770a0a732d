package webhookconf

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/coverage"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/policy"
)

// The webhooks of our own configurations (ExtraValidating, ExtraMutating) cover requests that the rules and selectors in the configurations
// with Kyverno's names cannot cover. They use the same paths, and the API server never calls both for one request.

// namespaces is the resource of Namespaces.
var namespaces = coverage.Resource{Group: "", Version: "v1", Name: "namespaces", Scope: admissionv1.AllScopes}

// NamelessCondition is the name of the match condition that selects Namespaces whose name label differs from their name.
const NamelessCondition = names.Domain + "nameless-namespaces"

// nameless returns the webhook for Namespaces for which the namespaceSelector of w, a mutating webhook for their creation, gives a wrong result.
// While a Namespace with generateName is created, its name label may have any value that its author sets. The API server sets name and label
// before validation, so only mutating webhooks are affected. The webhook is called if the API server does not call w because of the label,
// although the name of the request (or its absence) does not exclude the Namespace. conditions are the other match conditions.
func (b *builder) nameless(w webhook, conditions []admissionv1.MatchCondition) []webhook {
	labels, names, rest := onName(w.NamespaceSelector)
	if len(labels) == 0 {
		return nil
	}
	w.Name, w.NamespaceSelector = "namespaces."+w.Name, rest
	rules := coverage.Set{}
	rules.Add(coverage.OperationsOf(policy.Create), namespaces)
	w.Rules = rules.Rules()
	mine := "[object].map(o, " + labelsOf + ").exists(labels, !(" + strings.Join(labels, " && ") + "))"
	names = append(names, "!(has(request.name) && "+isIn("request.name", []string{metav1.NamespaceSystem, b.Options.Namespace})+")")
	w.MatchConditions = withCondition(slices.Clone(conditions), NamelessCondition, strings.Join(append(names, mine), " && "))
	return []webhook{w}
}

// created reports whether rules that authors wrote cover the creation of Namespaces.
func created(rules []admissionv1.RuleWithOperations) bool {
	set, wanted := coverage.Set{}, namespaces
	set.AddRules(rules)
	wanted.Scope = admissionv1.ClusterScope
	return set.On(wanted)[policy.Create]
}

// onName splits a selector into its requirements on the name label of a namespace and the rest. It returns the requirements as expressions
// on labels and as expressions on the name of the request.
func onName(sel *metav1.LabelSelector) (labels, names []string, rest *metav1.LabelSelector) {
	rest = &metav1.LabelSelector{}
	add := func(operator metav1.LabelSelectorOperator, values []string) {
		labels = append(labels, labelIs(policy.LabelRequirement{Key: namespaceName, Operator: string(operator), Values: values}))
		switch operator {
		case metav1.LabelSelectorOpIn:
			names = append(names, "has(request.name) && "+isIn("request.name", values))
		case metav1.LabelSelectorOpNotIn:
			names = append(names, "!(has(request.name) && "+isIn("request.name", values)+")")
		case metav1.LabelSelectorOpDoesNotExist:
			names = append(names, "false") // all namespaces have the label
		}
	}
	for key, value := range sel.MatchLabels {
		if key == namespaceName {
			add(metav1.LabelSelectorOpIn, []string{value})
			continue
		}
		if rest.MatchLabels == nil {
			rest.MatchLabels = map[string]string{}
		}
		rest.MatchLabels[key] = value
	}
	for _, e := range sel.MatchExpressions {
		if e.Key == namespaceName {
			add(e.Operator, e.Values)
			continue
		}
		rest.MatchExpressions = append(rest.MatchExpressions, e)
	}
	return labels, names, rest
}

// podResize is the subresource that changes the resources of a running Pod. The object of the request is the Pod.
var podResize = coverage.Resource{Group: "", Version: "v1", Name: "pods", Subresource: "resize", Scope: admissionv1.NamespacedScope}

// isPod reports whether a selector is the kind Pod. It also covers the subresources resize and ephemeralcontainers.
func isPod(t policy.Target) bool { return t.Kind == "Pod" && t.Subresource == "" }

// addResize adds pods/resize for a selector of Pods, if the API server serves it.
func addResize(to coverage.Set, t policy.Target, ops coverage.Operations, known discovery.Resources) error {
	if !isPod(t) || !ops[policy.Update] {
		return nil
	}
	found, err := known.Find(policy.Target{Group: t.Group, Version: t.Version, Kind: t.Kind, Subresource: "*"}) // an empty answer would fetch the list again
	if err != nil && !unlisted(err) {
		return err // failures in other groups do not matter here
	}
	for _, r := range found {
		if coverage.Found(r) == podResize {
			to.Add(coverage.OperationsOf(policy.Update), podResize) // the API server serves no other operation
		}
	}
	return nil
}

// resizing returns the webhook for pods/resize, for requests that the rules in the configurations with Kyverno's names do not cover.
func (b *builder) resizing(s *phase, h *draft) []webhook {
	const update = policy.Update
	if h.rules.On(podResize)[update] {
		return nil
	}
	asks := h.resize[update]
	var wanted, given []namespaceText // the namespaces that need it in this webhook, and those that the other webhook covers
	for namespace, s := range h.namespaces {
		switch {
		case s.rules.On(podResize)[update]:
			given = append(given, namespaceText{namespace: namespace})
		case s.resize[update]:
			wanted = append(wanted, namespaceText{namespace: namespace})
		}
	}
	if !asks && len(wanted) == 0 {
		return nil
	}
	w := b.resourceWebhook(s, h)
	w.Name = "resize." + h.name
	rules := coverage.Set{}
	rules.Add(coverage.Operations{update: true}, podResize)
	w.Rules = rules.Rules()
	w.MatchConditions = b.ownConditions(h)
	switch {
	case !asks:
		w.MatchConditions = withCondition(w.MatchConditions, ConfinedCondition, h.confine(wanted))
	case len(given) > 0:
		w.MatchConditions = withCondition(w.MatchConditions, ConfinedCondition, "!("+h.confine(given)+")")
	}
	w.MatchConditions = b.withDerived(w.MatchConditions, h, coverage.Operations{update: true})
	return []webhook{w}
}
