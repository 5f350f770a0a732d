package lint

import (
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/strict"
	"ephor.invalid/ephor/internal/wildcard"
)

var misspeltKind = &Check{
	Name: "misspelt-kind",
	Doc: "An unknown kind that differs from a known one by one letter, by two swapped letters, or only in case, or that is the name of its resource (`pods`). " +
		"An unknown kind is accepted, since its definition may come later, but until then the rule is never evaluated. " +
		"Correct the name; for a custom resource add the group, or give its definition with --crd-paths.",
	Example: `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: example
spec:
  rules:
  - name: label
    match:
      any:
      - resources:
          kinds: [Deploymnet]
    validate:
      pattern:
        metadata:
          labels:
            team: "?*"
`,
	slip: true,
	policy: func(in *input) {
		for i := range in.policy.Spec.Rules {
			rule := &in.policy.Spec.Rules[i]
			filters := filtersOf(&rule.MatchResources, rulePath(i)+".match")
			if rule.ExcludeResources != nil {
				filters = append(filters, filtersOf(rule.ExcludeResources, rulePath(i)+".exclude")...)
			}
			for _, f := range filters {
				for k, kind := range f.ResourceDescription.Kinds {
					if meant := in.misspelt(kind); meant != "" {
						in.warn(f.path+".resources.kinds["+strconv.Itoa(k)+"]", "did you mean "+meant+"?", "there is no kind %s in Kubernetes", kind)
					}
				}
			}
		}
	},
}

// misspelt returns the kind that the author probably meant by an unknown kind without a group.
func (in *input) misspelt(kind string) string {
	t, err := match.ParseKind(kind)
	if err != nil || t.Subresource != "" || t.Group != "*" || wildcard.Has(t.Kind) || len(t.Kind) < 3 || len(in.kinds.Find("*", "*", t.Kind, "")) > 0 {
		return ""
	}
	for _, known := range in.kinds.Find("*", "*", "*", "") {
		if n := known.Kind; strings.EqualFold(n, t.Kind) || kinds.Plural(n) == strings.ToLower(t.Kind) || strict.Distance(t.Kind, n) == 1 || swapped(t.Kind, n) {
			return n
		}
	}
	return ""
}

// swapped reports whether the words differ only in two adjacent letters that changed places.
func swapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i+1 < len(a); i++ {
		if a[i] != b[i] {
			return slices.Equal([]byte{a[i], a[i+1]}, []byte{b[i+1], b[i]}) && a[i+2:] == b[i+2:]
		}
	}
	return false
}
