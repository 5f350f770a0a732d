package lint

import (
	"slices"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
)

var virtualResource = &Check{
	Name: "virtual-resource",
	Doc: "A rule names a review of authentication or authorization, such as TokenReview or SubjectAccessReview. Since Kubernetes 1.37 the API server " +
		"sends requests for them to no webhook (the feature ExcludeAdmissionWebhookVirtualResources), so the rule is never evaluated.",
	Example: `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: example
spec:
  rules:
  - name: reviews
    match:
      any:
      - resources:
          kinds: [authentication.k8s.io/v1/TokenReview]
    validate:
      message: Reviews are not allowed.
      deny: {}
`,
	program: VirtualResources,
}

// virtualSince is the version of Kubernetes that sends these requests to no webhook.
const virtualSince = 37

// VirtualResources warns of rules whose requests an API server of the policy's version does not send.
func VirtualResources(p *policy.Program) (diags diag.List) {
	if p.Server.Known() < virtualSince {
		return nil
	}
	for _, r := range p.Rules {
		if r.Origin.IsAutogen() {
			continue
		}
		for _, kind := range VirtualKinds(r) {
			diags.Warnf(r.Path, "no request for the kind %s arrives: since Kubernetes 1.37 the API server sends none to a webhook", kind)
			diags.Hint("restrict who may create them with RBAC")
		}
	}
	return diags
}

// VirtualKinds returns the reviews of authentication and authorization that a rule names.
func VirtualKinds(r *policy.Rule) (out []string) {
	for i := range r.Targets {
		t := &r.Targets[i]
		if kind := kinds.Virtual(t.Group, t.Kind, t.Resource); kind != "" && !slices.Contains(out, kind) {
			out = append(out, kind)
		}
	}
	return out
}
