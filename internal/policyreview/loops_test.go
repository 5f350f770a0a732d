package policyreview

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/policy"
	"sigs.k8s.io/yaml"
)

func loopProgram(t *testing.T, text string) *policy.Program {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	p, diags := compile.One(compile.Object{Value: object})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return p
}

// loopRule returns a rule that generates an object of the kind make, named made-x, for objects of the kind of.
func loopRule(name, of, make, more string) string {
	return `{name: ` + name + `, match: {any: [{resources: {kinds: [` + of + `]` + more + `}}]}, skipBackgroundRequests: false,
    generate: {apiVersion: v1, kind: ` + make + `, name: made-x, namespace: made, data: {data: {a: b}}}}`
}

func loopPolicy(name string, rules ...string) string {
	return `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: ` + name + `}, spec: {rules: [` + strings.Join(rules, ",\n") + `]}}`
}

// A review warns of rules that generate each other's triggers, also across policies. It does not warn if they skip requests of the
// background controller, or if names, namespaces or kinds exclude a loop.
func TestReviewOfLoops(t *testing.T) {
	for name, c := range map[string]struct{ there, policy, want string }{
		"itself":             {"", loopPolicy("p", loopRule("r", "ConfigMap", "ConfigMap", "")), "p/r → p/r"},
		"two rules":          {"", loopPolicy("p", loopRule("a", "ConfigMap", "Secret", ""), loopRule("b", "Secret", "ConfigMap", "")), "p/a → p/b → p/a"},
		"two policies":       {loopPolicy("other", loopRule("b", "Secret", "ConfigMap", "")), loopPolicy("p", loopRule("a", "ConfigMap", "Secret", "")), "p/a → other/b → p/a"},
		"a loop of others":   {loopPolicy("other", loopRule("b", "Secret", "Secret", "")), loopPolicy("p", loopRule("a", "ConfigMap", "Secret", "")), ""},
		"its former version": {loopPolicy("p", loopRule("b", "Secret", "ConfigMap", "")), loopPolicy("p", loopRule("a", "ConfigMap", "Secret", "")), ""},
		"another name":       {"", loopPolicy("p", loopRule("r", "ConfigMap", "ConfigMap", ", names: [first]")), ""},
		"such a name":        {"", loopPolicy("p", loopRule("r", "ConfigMap", "ConfigMap", ", names: ['made-*']")), "p/r → p/r"},
		"another namespace":  {"", loopPolicy("p", loopRule("r", "ConfigMap", "ConfigMap", ", namespaces: [triggers]")), ""},
		"only deletions":     {"", loopPolicy("p", loopRule("r", "ConfigMap", "ConfigMap", ", operations: [DELETE]")), ""},
		"skipped":            {"", loopPolicy("p", strings.Replace(loopRule("r", "ConfigMap", "ConfigMap", ""), "false", "true", 1)), ""},
		"mutate existing": {"", loopPolicy("p", `{name: m, skipBackgroundRequests: false, match: {any: [{resources: {kinds: [Secret]}}]},
    mutate: {targets: [{apiVersion: v1, kind: Secret, namespace: made, name: s}], patchStrategicMerge: {data: {a: b}}}}`), "p/m → p/m"},
		"wildcards": {"", loopPolicy("p", loopRule("r", "'Config*'", "ConfigMap", "")), "p/r → p/r"},
	} {
		var programs []*policy.Program
		if c.there != "" {
			programs = append(programs, loopProgram(t, c.there))
		}
		s := &Reviewer{Programs: func() []*policy.Program { return programs }}
		got := ""
		if diags := s.checkLoops(loopProgram(t, c.policy)); len(diags) > 1 {
			t.Errorf("%s: %v", name, diags)
		} else if len(diags) == 1 {
			_, got, _ = strings.Cut(diags[0].Summary, "for ever: ")
			got, _, _ = strings.Cut(got, ";")
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
