package impact

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/webhookconf"
)

// webhook is one webhook that the policies need, prepared to select requests as the API server does.
type webhook struct {
	name, path string
	rules      []admissionregistrationv1.RuleWithOperations
	fails      bool // failurePolicy is Fail
	exact      bool // matchPolicy is Exact
	again      bool // reinvocationPolicy is IfNeeded
	namespaces labels.Selector
	onlyNames  bool // the selector reads only the label with the name of a namespace
	objects    labels.Selector
	conditions celrule.Conditions
	variables  *run.Variables
}

// webhooksOf returns the webhooks for resources in the order in which the API server calls them.
func webhooksOf(c webhookconf.Configurations) (mutating, validating []*webhook, err error) {
	slices.SortFunc(c.Mutating, func(a, b *admissionregistrationv1.MutatingWebhookConfiguration) int {
		return strings.Compare(a.Name, b.Name)
	})
	slices.SortFunc(c.Validating, func(a, b *admissionregistrationv1.ValidatingWebhookConfiguration) int {
		return strings.Compare(a.Name, b.Name)
	})
	for _, configuration := range c.Mutating {
		for i := range configuration.Webhooks {
			w := &configuration.Webhooks[i]
			if !webhookconf.IsResource(configuration.Name) {
				continue
			}
			made, err := newWebhook(admissionregistrationv1.ValidatingWebhook{
				Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
				NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, MatchConditions: w.MatchConditions,
			})
			if err != nil {
				return nil, nil, err
			}
			made.again = w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy
			mutating = append(mutating, made)
		}
	}
	for _, configuration := range c.Validating {
		for i := range configuration.Webhooks {
			if !webhookconf.IsResource(configuration.Name) {
				continue
			}
			made, err := newWebhook(configuration.Webhooks[i])
			if err != nil {
				return nil, nil, err
			}
			validating = append(validating, made)
		}
	}
	return mutating, validating, nil
}

func newWebhook(w admissionregistrationv1.ValidatingWebhook) (*webhook, error) {
	out := &webhook{
		name: w.Name, path: webhookconf.PathOf(&w.ClientConfig), rules: w.Rules,
		fails: w.FailurePolicy == nil || *w.FailurePolicy == admissionregistrationv1.Fail,
		exact: w.MatchPolicy != nil && *w.MatchPolicy == admissionregistrationv1.Exact,
	}
	var err error
	if out.namespaces, err = selectorOf(w.NamespaceSelector); err != nil {
		return nil, fmt.Errorf("webhook %s: namespaceSelector: %w", w.Name, err)
	}
	if out.objects, err = selectorOf(w.ObjectSelector); err != nil {
		return nil, fmt.Errorf("webhook %s: objectSelector: %w", w.Name, err)
	}
	requirements, _ := out.namespaces.Requirements()
	out.onlyNames = !slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() != corev1.LabelMetadataName })
	compiler := celrule.New(env.Declarations{}, &compilecost.Allowance{})
	out.conditions = compiler.Conditions(w.MatchConditions, "matchConditions")
	if err := compiler.Diags.Errors().Err(); err != nil {
		return nil, fmt.Errorf("webhook %s: %w", w.Name, err)
	}
	out.variables = compiler.Named()
	return out, nil
}

func selectorOf(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// selects reports whether the API server sends the request to the webhook. An error means that the API server cannot determine this either,
// and that the failurePolicy decides.
func (w *webhook) selects(ctx context.Context, req *policy.Request) (bool, error) {
	if !slices.ContainsFunc(w.rules, func(r admissionregistrationv1.RuleWithOperations) bool { return w.covers(&r, req) }) {
		return false, nil
	}
	if ok, err := w.inNamespace(ctx, req); !ok || err != nil {
		return false, err
	}
	if !w.objects.Empty() {
		new, err := labelsOf(req.Object)
		if err != nil {
			return false, err
		}
		old, err := labelsOf(req.OldObject)
		if err != nil {
			return false, err
		}
		if !(req.Object != nil && w.objects.Matches(new)) && !(req.OldObject != nil && w.objects.Matches(old)) {
			return false, nil
		}
	}
	if len(w.conditions) == 0 {
		return true, nil
	}
	in, err := celrule.RequestInput(req.WithObject(req.Object.Whole())) // the API server has the whole object
	if err != nil {
		return false, err
	}
	var meter budget.Meter
	meter.Reset(ctx, budget.DefaultSteps, budget.DefaultBytes)
	return w.conditions.Hold(ctx, &meter, w.variables, in)
}

// covers reports whether a rule names the resource and the operation of the request. The record of a request that the API server converted
// has both resources, the one after the conversion and the original one.
func (w *webhook) covers(r *admissionregistrationv1.RuleWithOperations, req *policy.Request) bool {
	if !has(r.Operations, admissionregistrationv1.OperationType(req.Operation)) {
		return false
	}
	if r.Scope != nil {
		cluster := req.Namespace == "" || isNamespace(req)
		switch *r.Scope {
		case admissionregistrationv1.NamespacedScope:
			if cluster {
				return false
			}
		case admissionregistrationv1.ClusterScope:
			if !cluster {
				return false
			}
		}
	}
	asked := req.AskedFor()
	names := func(gvr schema.GroupVersionResource, sub string) bool {
		return has(r.APIGroups, gvr.Group) && has(r.APIVersions, gvr.Version) && slices.ContainsFunc(r.Resources, func(text string) bool {
			resource, subresource, _ := strings.Cut(text, "/")
			return (resource == "*" || resource == gvr.Resource) && (subresource == "*" || subresource == sub)
		})
	}
	return names(asked.GVR, asked.Subresource) || !w.exact && names(req.GVR, req.Subresource)
}

func has[T ~string](list []T, want T) bool {
	return slices.Contains(list, want) || slices.Contains(list, "*")
}

// isNamespace reports whether the request is for a Namespace itself. A Namespace is in no namespace, although the review names one.
func isNamespace(req *policy.Request) bool {
	return req.GVR.Group == "" && req.GVR.Resource == "namespaces"
}

// inNamespace evaluates the namespaceSelector. The API server gives every Namespace the label with its name.
func (w *webhook) inNamespace(ctx context.Context, req *policy.Request) (bool, error) {
	if w.namespaces.Empty() || req.Namespace == "" && !isNamespace(req) {
		return true, nil
	}
	set := labels.Set{}
	name := req.Namespace
	switch {
	case isNamespace(req):
		name = req.Name
		d := req.Object
		if d == nil {
			d = req.OldObject
		}
		own, err := labelsOf(d)
		if err != nil {
			return false, err
		}
		maps.Copy(set, own)
	case !w.onlyNames:
		own, err := req.NamespaceLabels(ctx)
		if err != nil {
			return false, err
		}
		maps.Copy(set, own)
	}
	set[corev1.LabelMetadataName] = name
	return w.namespaces.Matches(set), nil
}
