package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/secretpath"
	"ephor.invalid/ephor/internal/webhookconf"
)

// sorted returns the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// configurations returns the names of all webhook configurations that Ephor writes.
func configurations() []string {
	names := []string{
		webhookconf.PolicyValidating, webhookconf.PolicyMutating, webhookconf.GlobalContextValidating, webhookconf.VerifyMutating,
		webhookconf.CleanupValidating, webhookconf.TTLValidating,
	}
	for _, x := range compile.Product.Exceptions() {
		names = append(names, x.Configuration)
	}
	return names
}

// configuration holds the parts of a webhook configuration, validating or mutating, that the checks need.
type configuration struct {
	Object
	services map[string]bool // the Services of webhooks, and whether a webhook of the Service fails closed
	secret   bool            // a path has a secret segment
	classic  bool            // a path is one of the kinds that Kyverno 1.20 does not execute
}

func (s *state) checkWebhooks(ctx context.Context) {
	managed := client.MatchingLabels{webhookconf.ManagedLabel: webhookconf.ManagedValue}
	var all []configuration
	var validating admissionv1.ValidatingWebhookConfigurationList
	s.unread(Object{Kind: "ValidatingWebhookConfiguration"}, s.Reader.List(ctx, &validating, managed))
	for _, o := range validating.Items {
		c := configuration{Object{Kind: "ValidatingWebhookConfiguration", Name: o.Name}, map[string]bool{}, false, false}
		for _, w := range o.Webhooks {
			c.add(w.ClientConfig, w.FailurePolicy)
		}
		all = append(all, c)
	}
	var mutating admissionv1.MutatingWebhookConfigurationList
	s.unread(Object{Kind: "MutatingWebhookConfiguration"}, s.Reader.List(ctx, &mutating, managed))
	for _, o := range mutating.Items {
		c := configuration{Object{Kind: "MutatingWebhookConfiguration", Name: o.Name}, map[string]bool{}, false, false}
		for _, w := range o.Webhooks {
			c.add(w.ClientConfig, w.FailurePolicy)
		}
		all = append(all, c)
	}
	known := configurations()
	answered := map[string]bool{}
	for _, c := range all {
		s.executed = s.executed || c.classic
		remove := fmt.Sprintf("kubectl delete %s %s", strings.ToLower(c.Kind), c.Name)
		if !webhookconf.IsResource(c.Name) && !slices.Contains(known, c.Name) {
			s.add(Finding{
				Code: "webhook-left-over", Severity: Stops, Object: c.Object, Commands: []string{remove + "   # once Kyverno is gone"},
				Message: "Ephor has no such configuration and does not remove it: no server answers its webhooks once Kyverno is gone",
			})
		}
		if c.secret {
			s.add(Finding{
				Code: "secret-paths", Severity: Note, Object: c.Object,
				Message:  "its paths have a secret segment that Kyverno does not know: turn it off, and wait until the upgrade is done, before Kyverno comes back",
				Commands: []string{"helm upgrade kyverno charts/ephor -n " + s.Namespace + " --reuse-values --set webhooks.secretPaths=false --wait   # before going back to Kyverno"},
			})
		}
		for _, service := range sorted(c.services) {
			if _, ok := answered[service]; !ok {
				answered[service] = s.answers(ctx, service)
			}
			if c.services[service] && !answered[service] {
				s.add(Finding{
					Code: "webhook-unanswered", Severity: Stops, Object: c.Object,
					Message:  fmt.Sprintf("the Service %s has no endpoint that is ready, and webhooks of the configuration fail closed: the API server refuses every request that they select, and with it the upgrade", service),
					Commands: []string{remove},
				})
			}
		}
	}
}

func (c *configuration) add(to admissionv1.WebhookClientConfig, policy *admissionv1.FailurePolicyType) {
	if to.Service == nil {
		return
	}
	if to.Service.Path != nil {
		_, path, secret := secretpath.Split(*to.Service.Path)
		c.secret, c.classic = c.secret || secret, c.classic || classicPath(path)
	}
	key := to.Service.Namespace + "/" + to.Service.Name
	c.services[key] = c.services[key] || policy == nil || *policy == admissionv1.Fail
}

// answers reports whether a Service has a ready endpoint. If that cannot be read, the Service counts as answering, and the failure is
// its own finding.
func (s *state) answers(ctx context.Context, service string) bool {
	namespace, name, _ := strings.Cut(service, "/")
	var list discoveryv1.EndpointSliceList
	if err := s.Reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name}); err != nil {
		s.unread(Object{Kind: "EndpointSlice", Namespace: namespace, Name: name}, err)
		return true
	}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				return true
			}
		}
	}
	return false
}
