package compile_test

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/family"
)

// Each kind of exceptions applies only to the policies of its families.
func TestKindsOfExceptions(t *testing.T) {
	for _, c := range []struct{ manifest, for1, notFor string }{
		{"{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: x, namespace: n}}", "ClusterPolicy Policy", "ValidatingPolicy CleanupPolicy"},
		{
			"{apiVersion: policies.kyverno.io/v1, kind: PolicyException, metadata: {name: x, namespace: n}}",
			"ValidatingPolicy NamespacedValidatingPolicy MutatingPolicy GeneratingPolicy NamespacedDeletingPolicy", "ClusterPolicy Policy ValidatingAdmissionPolicy",
		},
	} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(c.manifest), &object); err != nil {
			t.Fatal(err)
		}
		e, _ := compile.OneException(compile.Object{Value: object})
		for kind := range strings.FieldsSeq(c.for1) {
			if !slices.Contains(e.Kinds, kind) {
				t.Errorf("%s are not for %s", e.APIVersion, kind)
			}
		}
		for kind := range strings.FieldsSeq(c.notFor) {
			if slices.Contains(e.Kinds, kind) {
				t.Errorf("%s are for %s", e.APIVersion, kind)
			}
		}
	}
	if e, diags := compile.OneException(compile.Object{Value: map[string]any{"apiVersion": "v1", "kind": "PolicyException"}}); e != nil || !diags.HasErrors() {
		t.Error("an object of no family is an exception")
	}
}

// In a cluster, the conditions of an exception make no lookups: they are evaluated with the reach of the policy, and their author may have
// fewer rights. On the command line they do, since it reads its own files.
func TestConditionsOfExceptionsReachNothing(t *testing.T) {
	for _, expression := range []string{
		`resource.Get('v1', 'secrets', 'kube-system', 'token').data.token.startsWith('a')`, `http.Get('http://attacker.example').ok == true`,
		`globalContext.Get('entry', '') == 'x'`, `image('nginx').registry() == 'docker.io'`, `exceptions.allowedValues.size() == 0`, `variables.x == 1`,
		`authorizer.path('/healthz').check('get').allowed()`,
	} {
		object := map[string]any{
			"apiVersion": "policies.kyverno.io/v1", "kind": "PolicyException", "metadata": map[string]any{"name": "x", "namespace": "n"},
			"spec": map[string]any{
				"policyRefs":      []any{map[string]any{"kind": "ValidatingPolicy", "name": "p"}},
				"matchConditions": []any{map[string]any{"name": "c", "expression": expression}},
			},
		}
		if _, diags := compile.OneException(compile.Object{Value: object}); !diags.HasErrors() {
			t.Errorf("%s is accepted in a cluster", expression)
		}
		_, diags := compile.ExceptionWith(compile.Object{Value: object}, family.Options{CommandLine: true})
		if known := !strings.HasPrefix(expression, "authorizer") && !strings.HasPrefix(expression, "variables"); diags.HasErrors() == known {
			t.Errorf("%s on the command line: %v", expression, diags)
		}
	}
}
