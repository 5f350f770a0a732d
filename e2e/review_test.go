package e2e

import (
	"strings"
	"testing"
)

// A policy that does not compile is denied at its creation, with the field paths of all mistakes.
func TestBrokenPolicyIsRefused(t *testing.T) {
	_, err := kubectl(t, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: broken}
spec:
  rules:
  - name: first
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      message: "no"
      pattern: {spec: {+(hostNetwork): false}}
  - name: second
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      deny:
        conditions:
          all:
          - {key: "{{ request.object.metadata.name | }}", operator: Equals, value: x}
`, "create", "-f", "-")
	text, ok := refused(err)
	if !ok {
		t.Fatalf("not refused: %v", err)
	}
	for _, want := range []string{`admission webhook "validate-policy.kyverno.svc" denied the request: `, "unsupported anchor +(hostNetwork)", "spec.rules[0].validate", "spec.rules[1].validate"} {
		if !strings.Contains(text, want) {
			t.Errorf("the refusal does not hold %q:\n%s", want, text)
		}
	}
}
