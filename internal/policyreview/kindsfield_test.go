package policyreview

import (
	"testing"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/policy"
)

// The path of a selector, in every form of a match block.
func TestKindsField(t *testing.T) {
	scale := policy.Target{Group: "*", Version: "*", Kind: "Scale"}
	for _, c := range []struct{ rule, spec, want string }{
		{"spec.rules[1]", `{rules: [{}, {match: {any: [{resources: {kinds: [Pod]}}, {resources: {kinds: [Pod, Scale]}}]}}]}`, "spec.rules[1].match.any[1].resources.kinds"},
		{"spec.rules[0]", `{rules: [{match: {all: [{resources: {kinds: [Scale]}}]}}]}`, "spec.rules[0].match.all[0].resources.kinds"},
		{"spec.rules[0]", `{rules: [{match: {resources: {kinds: [apps/v1/Scale]}}}]}`, "spec.rules[0].match"},
		{"spec.rules[0]", `{rules: [{match: {resources: {kinds: [Scale]}}}]}`, "spec.rules[0].match.resources.kinds"},
		{"spec", `{match: {any: [{resources: {kinds: [Scale]}}]}}`, "spec.match.any[0].resources.kinds"},
		{"spec.rules[3]", `{rules: [{}]}`, "spec.rules[3].match"},
		{"spec.rules[0]", `{rules: {}}`, "spec.rules[0].match"},
	} {
		var spec map[string]any
		if err := yaml.Unmarshal([]byte(c.spec), &spec); err != nil {
			t.Fatal(err)
		}
		if got := kindsField(map[string]any{"spec": spec}, c.rule, scale); got != c.want {
			t.Errorf("%s in %s: %s, want %s", c.rule, c.spec, got, c.want)
		}
	}
}
