package vapgen

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
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

// made returns the translation of a policy.
func made(t *testing.T, text string) Output {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	u := unstructured.Unstructured{Object: object}
	out, err := Of(u.GetAPIVersion(), u.GetKind()).Translate(Input{Object: object, Resources: known})
	if err != nil || out.Policy == nil {
		t.Fatal(out.Reason, err)
	}
	return out
}

// An existing object is as wanted if it differs only by the API server's defaults; parts that the policy no longer has are
// removed.
func TestSame(t *testing.T) {
	equivalent := admissionregistrationv1.Equivalent
	have := made(t, full)
	p := have.Policy.(*admissionregistrationv1.ValidatingAdmissionPolicy)
	c := p.Spec.MatchConstraints
	c.MatchPolicy, c.NamespaceSelector = &equivalent, &metav1.LabelSelector{}
	p.ResourceVersion, p.Generation = "7", 1
	unchanged := func(want Output) bool { return same(want.Policy, have.Policy) && same(want.Binding, have.Binding) }
	if !unchanged(made(t, full)) {
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
		if unchanged(made(t, text)) {
			t.Errorf("without %q it is still the same", without)
		}
	}
}
