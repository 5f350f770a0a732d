package vapgen

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/ephor-dev/ephor/internal/family/classic"
)

const full = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p, uid: u, labels: {reports.kyverno.io/disabled: "true"}}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Deployment, StatefulSet], names: [a, b], operations: [CREATE, UPDATE], selector: {matchLabels: {a: b}}}}]}
    exclude: {any: [{resources: {kinds: [Deployment], names: [c]}}]}
    validate:
      failureAction: Enforce
      cel:
        generate: true
        variables: [{name: n, expression: "1"}]
        expressions: [{expression: "has(object.spec)", message: needed, reason: Invalid}, {expression: "true"}]
        auditAnnotations: [{key: k, valueExpression: "'v'"}]
        paramKind: {apiVersion: v1, kind: ConfigMap}
        paramRef: {name: p, namespace: d, parameterNotFoundAction: Deny}
`

// made is what a policy becomes.
func made(t *testing.T, text string) Output {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	p, _ := classic.Decode(object)
	out, err := Generate(Input{Policy: p, Resources: known})
	if err != nil || out.Policy == nil {
		t.Fatal(out.Reason, err)
	}
	return out
}

// What is there is as it should be when the API server's defaults are all that is more; whatever a policy no longer says is
// taken away again.
func TestSame(t *testing.T) {
	equivalent := admissionregistrationv1.Equivalent
	have := made(t, full)
	c := have.Policy.Spec.MatchConstraints
	c.MatchPolicy, c.NamespaceSelector = &equivalent, &metav1.LabelSelector{}
	have.Policy.ResourceVersion, have.Policy.Generation = "7", 1
	same := func(want Output) bool {
		return sameMeta(have.Policy, want.Policy) && samePolicy(want.Policy, have.Policy) &&
			sameMeta(have.Binding, want.Binding) && sameBinding(want.Binding, have.Binding)
	}
	if !same(made(t, full)) {
		t.Error("the same policy is another one")
	}
	for _, without := range []string{
		", StatefulSet", ", b]", ", names: [a, b]", ", UPDATE", ", selector: {matchLabels: {a: b}}", ", names: [c]", ", message: needed", ", reason: Invalid",
		`, {expression: "true"}`, ", namespace: d", `, labels: {reports.kyverno.io/disabled: "true"}`,
		"        variables: [{name: n, expression: \"1\"}]\n", "        auditAnnotations: [{key: k, valueExpression: \"'v'\"}]\n",
		"    exclude: {any: [{resources: {kinds: [Deployment], names: [c]}}]}\n",
	} {
		replacement := ""
		if without == ", b]" {
			replacement = "]"
		}
		text := strings.Replace(full, without, replacement, 1)
		if text == full {
			t.Fatalf("%q is not in the policy", without)
		}
		if same(made(t, text)) {
			t.Errorf("without %q it is still the same", without)
		}
	}
}
