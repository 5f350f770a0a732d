package webhookconf

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// webhook holds the common parts of validating and mutating webhooks, with the defaults of the API server.
type webhook struct {
	Name              string
	ClientConfig      admissionv1.WebhookClientConfig
	Rules             []admissionv1.RuleWithOperations
	FailurePolicy     admissionv1.FailurePolicyType
	NamespaceSelector *metav1.LabelSelector
	ObjectSelector    *metav1.LabelSelector
	SideEffects       admissionv1.SideEffectClass
	TimeoutSeconds    int32
	MatchConditions   []admissionv1.MatchCondition

	fine  bool // the webhook of one policy
	exact bool // matchPolicy is Exact
	once  bool // reinvocationPolicy is Never
	path  string
	// namespaced: the webhook belongs in a configuration for namespaced policies.
	namespaced bool
	programs   []*policy.Program
}

func (w *webhook) matchPolicy() *admissionv1.MatchPolicyType {
	p := admissionv1.Equivalent
	if w.exact {
		p = admissionv1.Exact
	}
	return &p
}

func (w *webhook) reinvocation() *admissionv1.ReinvocationPolicyType {
	p := admissionv1.IfNeededReinvocationPolicy
	if w.once {
		p = admissionv1.NeverReinvocationPolicy
	}
	return &p
}

func (b *builder) webhook(name, path string) webhook {
	return webhook{
		Name:              name,
		ClientConfig:      b.clientConfig(path),
		FailurePolicy:     admissionv1.Fail,
		NamespaceSelector: &metav1.LabelSelector{},
		ObjectSelector:    &metav1.LabelSelector{},
		SideEffects:       admissionv1.SideEffectClassNone,
		TimeoutSeconds:    min(b.Options.TimeoutSeconds, MaxTimeoutSeconds),
	}
}

func (b *builder) clientConfig(path string) admissionv1.WebhookClientConfig {
	if b.Options.Path != nil {
		path = b.Options.Path(path)
	}
	c := admissionv1.WebhookClientConfig{CABundle: b.CABundle}
	if b.Options.ServerIP != "" {
		url := "https://" + b.Options.ServerIP + path
		c.URL = &url
		return c
	}
	port := b.Options.ServicePort
	c.Service = &admissionv1.ServiceReference{Namespace: b.Options.Namespace, Name: b.Options.Service, Path: &path, Port: &port}
	return c
}

func (b *builder) validating(name string, webhooks []webhook) *admissionv1.ValidatingWebhookConfiguration {
	out := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: b.metadata(name)}
	for i := range webhooks {
		h := &webhooks[i]
		out.Webhooks = append(out.Webhooks, admissionv1.ValidatingWebhook{
			Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: &h.FailurePolicy, MatchPolicy: h.matchPolicy(),
			NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, SideEffects: &h.SideEffects,
			TimeoutSeconds: &h.TimeoutSeconds, AdmissionReviewVersions: []string{"v1"}, MatchConditions: h.MatchConditions,
		})
	}
	return out
}

func (b *builder) mutating(name string, webhooks []webhook) *admissionv1.MutatingWebhookConfiguration {
	out := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: b.metadata(name)}
	for i := range webhooks {
		h := &webhooks[i]
		out.Webhooks = append(out.Webhooks, admissionv1.MutatingWebhook{
			Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: &h.FailurePolicy, MatchPolicy: h.matchPolicy(),
			NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, SideEffects: &h.SideEffects,
			TimeoutSeconds: &h.TimeoutSeconds, AdmissionReviewVersions: []string{"v1"}, MatchConditions: h.MatchConditions,
			ReinvocationPolicy: h.reinvocation(),
		})
	}
	return out
}

// rule returns one rule of a fixed configuration, for created and updated objects of a group.
func rule(group string, versions []string, operations []admissionv1.OperationType, resources ...string) admissionv1.RuleWithOperations {
	scope := admissionv1.AllScopes
	return admissionv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: versions, Resources: resources, Scope: &scope},
	}
}

var writes = []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}

// policyRules returns the rules for the policies that the webhook reviews, in every version that was ever served. Kinds of a family with
// the same versions share one rule.
func (b *builder) policyRules(review family.Review) (out []admissionv1.RuleWithOperations) {
	for _, f := range b.Families.Families() {
		own := len(out)
		for _, k := range f.Kinds {
			if !k.Review.Has(review) {
				continue
			}
			versions := slices.Concat(k.Versions, k.Retired)
			i := slices.IndexFunc(out[own:], func(r admissionv1.RuleWithOperations) bool {
				return r.APIGroups[0] == k.Group && slices.Equal(r.APIVersions, versions)
			})
			if i < 0 {
				out = append(out, rule(k.Group, versions, writes, k.Resource))
				continue
			}
			r := &out[own+i]
			r.Resources = append(r.Resources, k.Resource)
			slices.Sort(r.Resources)
		}
	}
	return out
}

// policyValidating returns the webhook that reviews policies.
func (b *builder) policyValidating() []webhook {
	w := b.webhook("validate-policy.kyverno.svc", "/policyvalidate")
	w.Rules = b.policyRules(family.ReviewPolicy)
	return []webhook{w}
}

// exceptionValidating returns the webhook that reviews a kind of exceptions. Its rule names every version that was ever served, and the
// API server converts requests for other versions, so that no version bypasses the review.
func (b *builder) exceptionValidating(x *family.Exceptions) []webhook {
	resources := []string{x.Resource}
	if b.Options.Approvals {
		resources = append(resources, x.Resource+"/status")
	}
	return b.review(x.Path, rule(x.Group, x.Reviewed, writes, resources...))
}

// globalContextValidating returns the webhook that reviews global context entries, in every version.
func (b *builder) globalContextValidating() []webhook {
	return b.review("/globalcontextvalidate", rule("kyverno.io", []string{"v2alpha1", "v2beta1", "v2"}, writes, "globalcontextentries"))
}

// ReviewTimeoutSeconds is the timeout of the webhooks for our objects other than policies. It is the API server's default, and does
// not depend on --webhookTimeout.
const ReviewTimeoutSeconds = 10

func (b *builder) review(path string, rules ...admissionv1.RuleWithOperations) []webhook {
	w := b.webhook(b.Options.Service+"."+b.Options.Namespace+".svc", path)
	w.Rules = rules
	w.MatchConditions = b.globalConditions()
	w.TimeoutSeconds = ReviewTimeoutSeconds
	return []webhook{w}
}

func (b *builder) policyMutating() []webhook {
	w := b.webhook("mutate-policy.kyverno.svc", "/policymutate")
	w.SideEffects = admissionv1.SideEffectClassNoneOnDryRun
	w.Rules = b.policyRules(family.ReviewDefaults)
	return []webhook{w}
}

// verify returns the heartbeat webhook: the API server sends updates of our Lease through our server.
func (b *builder) verify() []webhook {
	w := b.webhook("monitor-webhooks.kyverno.svc", "/verifymutate")
	w.FailurePolicy = admissionv1.Ignore
	w.SideEffects = admissionv1.SideEffectClassNoneOnDryRun
	w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "kyverno"}}
	w.Rules = []admissionv1.RuleWithOperations{
		rule("coordination.k8s.io", []string{"v1"}, []admissionv1.OperationType{admissionv1.Update}, "leases"),
	}
	return []webhook{w}
}
