package webhookconf

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/secretpath"
)

// Both kinds of configurations have the same parts, with different types. This file handles both in the same way.

// anyWebhook is a webhook of either kind. One of the two fields is set.
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

// content returns the complete webhook, for comparison.
func (w anyWebhook) content() any {
	if w.validating != nil {
		return *w.validating
	}
	return *w.mutating
}

// webhooksOf returns the webhooks of a configuration, without copying them.
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

// setWebhooks copies the webhooks of from, which must have the same kind, into to.
func setWebhooks(to, from client.Object) {
	if v, ok := to.(*admissionv1.ValidatingWebhookConfiguration); ok {
		v.Webhooks = from.(*admissionv1.ValidatingWebhookConfiguration).Webhooks
		return
	}
	to.(*admissionv1.MutatingWebhookConfiguration).Webhooks = from.(*admissionv1.MutatingWebhookConfiguration).Webhooks
}

// empty returns a new object of the same kind.
func empty(o client.Object) client.Object {
	if _, ok := o.(*admissionv1.ValidatingWebhookConfiguration); ok {
		return &admissionv1.ValidatingWebhookConfiguration{}
	}
	return &admissionv1.MutatingWebhookConfiguration{}
}

// handedOver returns a static configuration as stored, but with our current address, path, CA bundle and owner, since an outdated CA
// bundle or path would make a webhook deny everything. This includes webhooks that users added, if they call our server.
func handedOver(want, stored client.Object, path func(plain string) string) client.Object {
	out := stored.DeepCopyObject().(client.Object)
	out.SetOwnerReferences(want.GetOwnerReferences())
	ours := map[string]*admissionv1.WebhookClientConfig{}
	var server *admissionv1.WebhookClientConfig
	for _, w := range webhooksOf(want) {
		server = w.clientConfig()
		ours[w.name()] = server
	}
	for _, w := range webhooksOf(out) {
		c := w.clientConfig()
		switch own := ours[w.name()]; {
		case own != nil:
			*c = *own.DeepCopy()
		case server != nil && sameServer(c, server):
			c.CABundle = slices.Clone(server.CABundle)
			repath(c, path)
		}
	}
	return out
}

// sameServer reports whether two webhooks call the same server.
func sameServer(a, b *admissionv1.WebhookClientConfig) bool {
	switch {
	case a.Service != nil && b.Service != nil:
		return a.Service.Namespace == b.Service.Namespace && a.Service.Name == b.Service.Name
	case a.URL != nil && b.URL != nil:
		x, errX := url.Parse(*a.URL)
		y, errY := url.Parse(*b.URL)
		return errX == nil && errY == nil && x.Host == y.Host
	}
	return false
}

// PathOf returns the path of a webhook, including its segment if it has one.
func PathOf(c *admissionv1.WebhookClientConfig) string {
	switch {
	case c.Service != nil && c.Service.Path != nil:
		return *c.Service.Path
	case c.URL != nil:
		if u, err := url.Parse(*c.URL); err == nil {
			return u.Path
		}
	}
	return ""
}

// Repath replaces the paths with segments in a configuration by the paths that path returns.
func Repath(o client.Object, path func(plain string) string) {
	for _, w := range webhooksOf(o) {
		if _, _, secret := secretpath.Split(PathOf(w.clientConfig())); secret {
			repath(w.clientConfig(), path)
		}
	}
}

// repath replaces the path of a webhook by the current path for its plain path.
func repath(c *admissionv1.WebhookClientConfig, path func(plain string) string) {
	plain := secretpath.Plain(PathOf(c))
	if path != nil {
		plain = path(plain)
	}
	switch {
	case c.Service != nil && c.Service.Path != nil:
		c.Service.Path = &plain
	case c.URL != nil:
		if u, err := url.Parse(*c.URL); err == nil {
			u.Path, u.RawPath = plain, ""
			text := u.String()
			c.URL = &text
		}
	}
}

// CalledPath is the path of one of our webhooks.
type CalledPath struct {
	// Kind and Configuration are the kind and name of the webhook configuration.
	Kind, Configuration string
	Path                string
}

// List returns the webhook configurations of both kinds that have our label.
func List(ctx context.Context, r client.Reader) (out []client.Object, err error) {
	ours := client.MatchingLabels{ManagedLabel: ManagedValue}
	var validating admissionv1.ValidatingWebhookConfigurationList
	var mutating admissionv1.MutatingWebhookConfigurationList
	for _, list := range []client.ObjectList{&validating, &mutating} {
		if err := r.List(ctx, list, ours); err != nil {
			return nil, fmt.Errorf("list the webhook configurations: %w", err)
		}
	}
	for i := range validating.Items {
		out = append(out, &validating.Items[i])
	}
	for i := range mutating.Items {
		out = append(out, &mutating.Items[i])
	}
	return out, nil
}

// KindOf returns the kind of a webhook configuration, which typed objects do not hold.
func KindOf(o client.Object) string {
	if _, ok := o.(*admissionv1.MutatingWebhookConfiguration); ok {
		return "MutatingWebhookConfiguration"
	}
	return "ValidatingWebhookConfiguration"
}

// ServersOf returns what the webhooks of a configuration call.
func ServersOf(o client.Object) (out []admissionv1.WebhookClientConfig) {
	for _, w := range webhooksOf(o) {
		out = append(out, *w.clientConfig())
	}
	return out
}

// Asks reports whether any webhook of the configuration calls our server. ours identifies our server.
func Asks(o client.Object, ours func(admissionv1.WebhookClientConfig) bool) bool {
	return slices.ContainsFunc(webhooksOf(o), func(w anyWebhook) bool { return ours(*w.clientConfig()) })
}

// CalledPaths returns the paths at which the webhooks in the configurations call our server. ours identifies our server.
func CalledPaths(ours func(admissionv1.WebhookClientConfig) bool, configurations ...client.Object) (out []CalledPath) {
	for _, o := range configurations {
		for _, w := range webhooksOf(o) {
			if c := w.clientConfig(); PathOf(c) != "" && ours(*c) {
				out = append(out, CalledPath{Kind: KindOf(o), Configuration: o.GetName(), Path: PathOf(c)})
			}
		}
	}
	return out
}
