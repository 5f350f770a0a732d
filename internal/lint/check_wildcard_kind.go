package lint

import (
	"strconv"

	"github.com/ephor-dev/ephor/internal/match"
	"github.com/ephor-dev/ephor/internal/schema"
	"github.com/ephor-dev/ephor/internal/wildcard"
)

var wildcardKind = &Check{
	Name: "wildcard-kind",
	Doc: "A kind with a wildcard makes the API server ask about every request for every kind that it covers, and a scan read them all. " +
		"With `*` that includes the Leases that each node renews every 10 seconds and the Events that everything writes. " +
		"Name the kinds; where it has to be a wildcard, narrow the filter by operations or a namespaceSelector, which the webhook configuration " +
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
		for i := range in.policy.Spec.Rules {
			for _, f := range filtersOf(&in.policy.Spec.Rules[i].MatchResources, rulePath(i)+".match") {
				for k, kind := range f.ResourceDescription.Kinds {
					t, err := match.ParseKind(kind)
					if err != nil || !wildcard.Has(t.Kind) {
						continue
					}
					hint := "name the kinds"
					if len(f.ResourceDescription.Operations) == 0 {
						hint += ", or at least the operations"
					}
					in.warn(f.path+".resources.kinds["+strconv.Itoa(k)+"]", hint, "kind %s %s", kind, price(in, t.Group, t.Version, t.Kind))
				}
			}
		}
	},
}

// price says what a kind with a wildcard costs.
func price(in *input, group, version, kind string) string {
	if kind == "*" && group == "*" && version == "*" {
		return "covers " + strconv.Itoa(schema.Count()) + " kinds of Kubernetes and all custom resources: the API server waits for the webhook at every " +
			"write, 10 times a second for the Leases of 100 nodes alone, and a scan reads every object of the cluster"
	}
	names := map[string]bool{}
	for _, found := range in.kinds.Find(group, version, kind, "") {
		names[found.Group+"/"+found.Kind] = true
	}
	return "covers " + strconv.Itoa(len(names)) + " known kinds: the webhook is asked at every write of each of them"
}
