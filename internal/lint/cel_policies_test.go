package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/lint"
)

// Expressions of policies of policies.kyverno.io are held against the fields of all kinds that the constraints name.
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
