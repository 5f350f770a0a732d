package webhookconf

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The two kinds of configurations have the same parts with different types. What is said of both is said here.

// anyWebhook is a webhook of either kind; one of the two is set.
type anyWebhook struct {
	validating *admissionv1.ValidatingWebhook
	mutating   *admissionv1.MutatingWebhook
}

func (w anyWebhook) name() string {
	if w.validating != nil {
		return w.validating.Name
	}
	return w.mutating.Name
}

func (w anyWebhook) rules() []admissionv1.RuleWithOperations {
	if w.validating != nil {
		return w.validating.Rules
	}
	return w.mutating.Rules
}

func (w anyWebhook) clientConfig() *admissionv1.WebhookClientConfig {
	if w.validating != nil {
		return &w.validating.ClientConfig
	}
	return &w.mutating.ClientConfig
}

// content is all of it, for comparing.
func (w anyWebhook) content() any {
	if w.validating != nil {
		return *w.validating
	}
	return *w.mutating
}

// webhooksOf are the webhooks of a configuration, not copied.
func webhooksOf(o client.Object) (out []anyWebhook) {
	switch o := o.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			out = append(out, anyWebhook{validating: &o.Webhooks[i]})
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			out = append(out, anyWebhook{mutating: &o.Webhooks[i]})
		}
	}
	return out
}

func contents(o client.Object) any {
	if v, ok := o.(*admissionv1.ValidatingWebhookConfiguration); ok {
		return v.Webhooks
	}
	return o.(*admissionv1.MutatingWebhookConfiguration).Webhooks
}

// setWebhooks gives to the webhooks of from, which must be of its kind.
func setWebhooks(to, from client.Object) {
	if v, ok := to.(*admissionv1.ValidatingWebhookConfiguration); ok {
		v.Webhooks = from.(*admissionv1.ValidatingWebhookConfiguration).Webhooks
		return
	}
	to.(*admissionv1.MutatingWebhookConfiguration).Webhooks = from.(*admissionv1.MutatingWebhookConfiguration).Webhooks
}

// empty is a new object of the same kind.
func empty(o client.Object) client.Object {
	if _, ok := o.(*admissionv1.ValidatingWebhookConfiguration); ok {
		return &admissionv1.ValidatingWebhookConfiguration{}
	}
	return &admissionv1.MutatingWebhookConfiguration{}
}

// handedOver is a static configuration as it is stored, with our address and CA and our owner: an authority that has
// ended would turn what somebody else keeps into a locked door.
func handedOver(want, stored client.Object) client.Object {
	out := stored.DeepCopyObject().(client.Object)
	out.SetOwnerReferences(want.GetOwnerReferences())
	ours := map[string]*admissionv1.WebhookClientConfig{}
	for _, w := range webhooksOf(want) {
		ours[w.name()] = w.clientConfig()
	}
	for _, w := range webhooksOf(out) {
		if c := ours[w.name()]; c != nil {
			*w.clientConfig() = *c.DeepCopy()
		}
	}
	return out
}
