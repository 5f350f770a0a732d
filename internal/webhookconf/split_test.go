package webhookconf

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// Each policy is in one part, the length of the paths is limited, and policies with the same rules are in as few parts as their names
// allow.
func TestGroupsAreDivided(t *testing.T) {
	on := func(kind string, count, length int) (out []groupedPolicy) {
		for i := range count {
			name := fmt.Sprintf("%s-%04d", kind, i)
			name += strings.Repeat("x", length-len(name))
			out = append(out, groupedPolicy{name: name, rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{"CREATE"}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: strings.Split(kind, "+")},
			}}})
		}
		return out
	}
	for _, c := range []struct {
		members []groupedPolicy
		want    []string // for each part: the resources and the number of policies
	}{
		{nil, nil},
		{slices.Concat(on("pods", 18, 30), on("services", 18, 30)), []string{"pods services 36"}},
		{slices.Concat(on("services", 999, 14), on("pods", 18, 30)), []string{"pods 18", "services 546", "services 453"}},
		{slices.Concat(on("a", 50, 30), on("b", 50, 30), on("c", 10, 30)), []string{"a c 60", "b 50"}},
		// A request for pods causes one call, although the names are as long as 150 policies have them.
		{slices.Concat(on("pods", 150, 30), on("jobs+pods", 18, 30)), []string{"jobs pods 168"}},
		// A part about the same requests comes before one that has room.
		{slices.Concat(on("configmaps", 10, 30), on("jobs", 100, 30), on("secrets+jobs", 10, 30)), []string{"configmaps 10", "jobs secrets 110"}},
		{slices.Concat(on("*", 1, 30), on("pods", 150, 30)), []string{"* pods 151"}},
		{on("pods", 300, 27), []string{"pods 292", "pods 8"}},
	} {
		var got []string
		seen := map[string]bool{}
		for _, part := range split(c.members) {
			var resources []string
			size := 0
			for _, m := range part {
				if seen[m.name] {
					t.Errorf("%s is in two parts", m.name)
				}
				seen[m.name] = true
				resources = append(resources, m.rules[0].Resources...)
				size += len(m.name) + 1
			}
			if size > maxNames {
				t.Errorf("a path has %d bytes of names", size)
			}
			slices.Sort(resources)
			if resources = slices.Compact(resources); len(resources) > 0 {
				resources = append(resources, fmt.Sprint(len(part)))
			}
			got = append(got, strings.Join(resources, " "))
		}
		if len(seen) != len(c.members) {
			t.Errorf("%d of %d policies are in parts", len(seen), len(c.members))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
