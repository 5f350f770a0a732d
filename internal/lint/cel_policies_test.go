package lint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/lint"
)

// Expressions in policies of policies.kyverno.io are compared with the fields of all kinds that the constraints name.
func TestCELPolicyFields(t *testing.T) {
	for _, c := range []struct{ name, groups, resources, body, want string }{
		{"good", `["apps"]`, "[deployments]", "validations: [{expression: object.spec.replicas > 1}]", ""},
		{"misspelt", `["apps"]`, "[deployments]", "validations: [{expression: object.spec.replicaz > 1}]", "spec.validations[0].expression: apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replicaz'"},
		{"in a loop", `[""]`, "[pods]", `validations: [{expression: "object.spec.containers.all(c, c.imag == 'a')"}]`, "undefined field 'imag'"},
		{"in a condition", `[""]`, "[pods]", "matchConditions: [{name: c, expression: object.specc.x == 1}], validations: [{expression: 'true'}]", "spec.matchConditions[0].expression: v1, Kind=Pod"},
		{"in a variable", `[""]`, "[pods]", "variables: [{name: c, expression: object.spec.containerz}], validations: [{expression: variables.c.size() > 0}]", "spec.variables[0].expression"},
		{"of one of the kinds", `["", "apps"]`, "[pods, deployments]", `validations: [{expression: "object.kind != 'Pod' || object.spec.containers.size() > 0"}]`, ""},
		{"of none of the kinds", `["", "apps"]`, "[pods, deployments]", "validations: [{expression: object.spec.nope == 1}]", "undefined field 'nope'"},
		{"beside a kind", `[""]`, "[pods]", "validations: [{expression: \"object.kind != 'Deployment' || object.spec.template.spec.hostNetwork\"}]", ""},
		{"an unknown kind", `["example.com"]`, "[widgets]", "validations: [{expression: object.spec.nope == 1}]", ""},
		{"a subresource", `[""]`, "[pods/exec]", "validations: [{expression: object.command.size() > 0}]", ""},
		{"a library", `[""]`, "[pods]", "validations: [{expression: \"resource.get('v1', 'configmaps', 'a', 'b').data.x == 'y' && object.spec.hostNetwork == true\"}]", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(fmt.Sprintf(`
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: p}
spec: {matchConstraints: {resourceRules: [{apiGroups: %s, apiVersions: [v1], operations: [CREATE], resources: %s}]}, %s}
`, c.groups, c.resources, c.body)), &object); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range lint.Policy(compile.Object{Value: object}, lint.Options{}) {
				got = append(got, f.Check.Name+": "+f.Path+": "+f.Summary)
			}
			all := strings.Join(got, "\n")
			if c.want == "" && all != "" || !strings.Contains(all, c.want) || c.want != "" && !strings.HasPrefix(all, "cel-fields: ") {
				t.Errorf("got %q, want %q", all, c.want)
			}
		})
	}
}

// Mistakes are also found in parts that the command line itself does not evaluate: targets in a cluster, and schedules.
func TestCELPoliciesOfClusters(t *testing.T) {
	const constraints = "matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}"
	const targets = constraints + ", targetMatchConstraints: {expression: objekt}, targetMatchConditions: [{name: c, expression: '1'}], mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[]'}}]"
	wrongTargets := []string{"spec.mutations[0].jsonPatch.expression", "spec.targetMatchConditions[0].expression", "spec.targetMatchConstraints.expression"}
	for _, c := range []struct {
		name, kind, spec string
		want             []string
	}{
		{"targets", "MutatingPolicy", "evaluation: {mutateExisting: {enabled: true}}, " + targets, wrongTargets},
		{"targets that are switched off", "MutatingPolicy", targets, wrongTargets},
		{"conditions without targets", "MutatingPolicy", constraints + `, targetMatchConditions: [{name: c, expression: "1"}], mutations: []`, wrongTargets[1:2]},
		{"good targets", "MutatingPolicy", constraints + `, targetMatchConstraints: {expression: "resource.Get('v1', 'configmaps', 'a', 'b')"}, mutations: []`, nil},
		{"a schedule of four fields", "DeletingPolicy", constraints + ", schedule: '* * * *'", []string{"spec.schedule"}},
		{"no schedule", "DeletingPolicy", constraints + ", schedule: ''", []string{"spec.schedule"}},
		{"a schedule", "DeletingPolicy", constraints + ", schedule: '@daily'", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var object map[string]any
			if err := yaml.Unmarshal([]byte("apiVersion: policies.kyverno.io/v1\nkind: "+c.kind+"\nmetadata: {name: p}\nspec: {"+c.spec+"}\n"), &object); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range lint.Policy(compile.Object{Value: object}, lint.Options{}) {
				if f.Severity == diag.Error {
					got = append(got, f.Path)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("mistakes in %q, want %q", got, c.want)
			}
		})
	}
}

// A mistake that also occurs in the generated policies for controllers is reported once.
func TestMistakesOfGeneratedPolicies(t *testing.T) {
	for _, spec := range []string{
		"ValidatingPolicy {validations: [{expression: 'true', message: 7}]",
		"ImageValidatingPolicy {attestors: [], validations: [{expression: 'true', message: 7}]",
	} {
		kind, spec, _ := strings.Cut(spec, " ")
		var object map[string]any
		if err := yaml.Unmarshal([]byte("apiVersion: policies.kyverno.io/v1\nkind: "+kind+"\nmetadata: {name: p}\nspec: "+spec+
			", matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}}\n"), &object); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range lint.Policy(compile.Object{Value: object}, lint.Options{}) {
			got = append(got, f.Path+": "+f.Summary)
		}
		if len(got) != 1 || !strings.HasPrefix(got[0], "spec.validations[0].message: expected a string") {
			t.Errorf("%s: %q", kind, got)
		}
	}
}
