package native

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := value.DecodeJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

func bindings(t *testing.T, text string, names ...string) []*Binding {
	t.Helper()
	var out []*Binding
	for _, name := range names {
		b, diags := CompileBinding(decoded(t, strings.ReplaceAll(text, "NAME", name)))
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		out = append(out, b)
	}
	return out
}

const replicas = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas, annotations: {policies.kyverno.io/severity: high}}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  variables: [{name: count, expression: object.spec.replicas}]
`

// The results of the API server's policies for existing objects: one for each binding.
func TestReport(t *testing.T) {
	const binding = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: replicas, validationActions: [Audit], matchResources: {namespaceSelector: {matchLabels: {env: NAME}}}}
`
	for _, c := range []struct {
		name, policy string
		bindings     []string
		want         []string // status, message and binding
	}{
		{name: "pass", policy: "  validations: [{expression: variables.count <= 5}]\n", want: []string{"pass||"}},
		{name: "fail", policy: "  validations: [{expression: variables.count <= 3, message: too many}]\n", want: []string{"fail|too many|"}},
		{name: "words of the API server", policy: "  validations: [{expression: variables.count <= 3}]\n", want: []string{"fail|failed expression: variables.count <= 3|"}},
		{
			name:   "message expression",
			policy: "  validations: [{expression: variables.count <= 3, messageExpression: \"string(variables.count) + ' are too many'\"}]\n",
			want:   []string{"fail|4 are too many|"},
		},
		{name: "error", policy: "  validations: [{expression: object.spec.none == 1}]\n", want: []string{"error|expression 'object.spec.none == 1' resulted in error: no such key: none|"}},
		{name: "condition that does not hold", policy: "  matchConditions: [{name: never, expression: 'false'}]\n  validations: [{expression: 'false'}]\n"},
		{name: "bindings", policy: "  validations: [{expression: 'true'}]\n", bindings: []string{"prod", "test", "prod"}, want: []string{"pass||prod", "pass||prod"}},
		{name: "no binding selects it", policy: "  validations: [{expression: 'true'}]\n", bindings: []string{"test"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, CompileReport(Source{Policy: decoded(t, replicas+c.policy), Bindings: bindings(t, binding, c.bindings...)}, Options{}), c.want)
		})
	}
	p := CompileReport(Source{Policy: decoded(t, replicas)}, Options{})
	if p.Settings.Severity != "high" || !p.Settings.Scored || !p.Settings.Background || p.Rules[0].Name != "replicas" {
		t.Errorf("%+v", p)
	}
	if p := CompileReport(Source{Policy: decoded(t, replicas+"  validations: [{expression: 'object.'}]\n")}, Options{}); !p.Diags.HasErrors() {
		t.Error("an expression that does not compile is a mistake")
	}
}

// A mutating policy reports whether it would change the object.
func TestReportOfMutation(t *testing.T) {
	const head = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: label}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
`
	const binding = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicyBinding\nmetadata: {name: NAME}\nspec: {policyName: label}\n"
	mutation := func(label string) string {
		return `  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels", value: {"a": "` + label + `"}}]'}}]` + "\n"
	}
	for _, c := range []struct {
		name, policy string
		bindings     []string
		want         []string
	}{
		{"applied", mutation("b"), nil, []string{"pass|mutation is successfully applied|"}},
		{"not applied", mutation("c"), []string{"all"}, []string{"fail|mutation is not applied|all"}},
		{"condition that does not hold", "  matchConditions: [{name: never, expression: 'false'}]\n" + mutation("c"), nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, CompileReport(Source{Policy: decoded(t, head+c.policy), Bindings: bindings(t, binding, c.bindings...)}, Options{}), c.want)
		})
	}
}

// check evaluates the policy for a Deployment with four replicas in a Namespace of the environment prod.
func check(t *testing.T, p *policy.Program, want []string) {
	t.Helper()
	if p.Diags.HasErrors() {
		t.Fatal(p.Diags)
	}
	req := &policy.Request{Review: policy.Review{
		Origin: policy.FromScan, Operation: policy.Create, Namespace: "n", Name: "d",
		GVK: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		GVR: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Object: value.Of(map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "d", "namespace": "n", "labels": map[string]any{"a": "b"}},
			"spec": map[string]any{"replicas": int64(4)},
		}),
		ResolveNamespace: func(context.Context) (map[string]string, error) { return map[string]string{"env": "prod"}, nil },
	}}
	req.RequestGVK = req.GVK
	var got []string
	matched, err := p.Rules[0].Match(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if matched {
		y := p.Rules[0].Eval(&policy.Call{Env: &evalenv.Env{}, Request: req, Program: p, Rule: p.Rules[0]})
		for _, one := range append([]policy.Yield{y}, y.Also...) {
			if one.Status != policy.StatusNone {
				got = append(got, one.Status.String()+"|"+one.Message+"|"+one.Properties[propertyBinding]+one.Properties[propertyMutating])
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
