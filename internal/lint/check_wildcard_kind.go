package lint

import (
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

var wildcardKind = &Check{
	Name: "wildcard-kind",
	Doc: "A kind with a wildcard makes the API server send every request for every kind that it matches, and makes a scan read all their objects. " +
		"A wildcard does not include Events, Leases, Nodes and other kinds that change all the time or that a cluster needs to start: a policy " +
		"for them must name them. " +
		"Name the kinds; if a wildcard is necessary, narrow the filter by operations or a namespaceSelector, which the webhook configuration " +
		"can pass on to the API server.",
	Example: `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: example
spec:
  background: false
  rules:
  - name: label
    match:
      any:
      - resources:
          kinds: ["*"]
    validate:
      pattern:
        metadata:
          labels:
            team: "?*"
`,
	policy: func(in *input) {
		background := in.policy.Spec.Background
		for i := range in.policy.Spec.Rules {
			for _, f := range filtersOf(&in.policy.Spec.Rules[i].MatchResources, rulePath(i)+".match") {
				for k, kind := range f.ResourceDescription.Kinds {
					t, err := match.ParseKind(kind)
					if err != nil || !wildcard.Has(t.Kind) || t.Subresource != "" && t.Subresource != "*" {
						continue // a wildcard kind rarely has only one subresource
					}
					hint := "name the kinds"
					if len(f.ResourceDescription.Operations) == 0 {
						hint += ", or at least the operations"
					}
					in.warn(f.path+".resources.kinds["+strconv.Itoa(k)+"]", hint, "kind %s covers %s: %s", kind, in.covered(t),
						price(t, f.ResourceDescription.Operations, background == nil || *background))
				}
			}
		}
	},
}

func everything(t policy.Target) bool { return t.Kind == "*" && t.Group == "*" && t.Version == "*" }

// covered describes what a kind with a wildcard matches.
func (in *input) covered(t policy.Target) string {
	if everything(t) {
		return "the kinds of Kubernetes, except Events, Leases, Nodes and similar ones, and all custom resources"
	}
	names := map[string]bool{}
	for _, found := range in.kinds.Find(t.Group, t.Version, t.Kind, "") {
		names[found.Group+"/"+found.Kind] = true
	}
	if len(names) == 1 {
		return "1 known kind"
	}
	return strconv.Itoa(len(names)) + " known kinds"
}

// price describes its cost.
func price(t policy.Target, operations []kyvernov1.AdmissionOperation, background bool) string {
	names := make([]string, len(operations))
	for i, o := range operations {
		names[i] = string(o)
	}
	at := "write"
	if len(names) > 0 {
		at = strings.Join(names, " and ")
	}
	out := "the API server waits for the webhook at every " + at
	if background {
		out += ", and a scan reads every object of them"
	}
	return out
}
