package webhookconf

import (
	"strings"
	"testing"
)

// The cleanup controller's configuration calls its own Service, and covers cleanup policies in every version.
func TestDesiredCleanup(t *testing.T) {
	input := in()
	input.Options.Service = "kyverno-cleanup-controller"
	got := DesiredCleanup(input)
	if len(got.Validating) != 2 || len(got.Mutating) != 0 {
		t.Fatal(got)
	}
	c := got.Validating[0]
	w := c.Webhooks[0]
	if c.Name != "kyverno-cleanup-validating-webhook-cfg" || w.Name != "kyverno-cleanup-controller.kyverno.svc" || *w.ClientConfig.Service.Path != "/validate" ||
		w.ClientConfig.Service.Name != "kyverno-cleanup-controller" || strings.Join(w.Rules[0].Resources, " ") != "cleanuppolicies clustercleanuppolicies" ||
		c.Labels[ManagedLabel] != ManagedValue || len(w.Rules[0].APIVersions) != 3 {
		t.Errorf("%+v", c)
	}
	// The review of TTL labels only receives labelled objects, and never denies a request.
	c = got.Validating[1]
	w = c.Webhooks[0]
	if c.Name != "kyverno-ttl-validating-webhook-cfg" || w.Name != "kyverno-cleanup-controller.kyverno.svc" || *w.ClientConfig.Service.Path != "/verifyttl" ||
		*w.FailurePolicy != "Ignore" || len(w.ObjectSelector.MatchExpressions) != 1 || w.ObjectSelector.MatchExpressions[0].Key != "cleanup.kyverno.io/ttl" ||
		w.ObjectSelector.MatchExpressions[0].Operator != "Exists" || strings.Join(w.Rules[0].Resources, " ") != "*" || w.Rules[0].APIGroups[0] != "*" {
		t.Errorf("%+v", c)
	}
}
