package cel

import (
	"strings"
	"testing"
)

func deployment(env string) string {
	return `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: e2e-cel, labels: {env: ` + env + `}},
		spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "x:1"}]}}}}`
}

func pod(image string) string {
	return `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: e2e-cel}, spec: {containers: [{name: c, image: "` + image + `"}]}}`
}

const envPolicy = `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: e2e-env}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
  - expression: "object.metadata.?labels.env.orValue('') == 'prod'"
    message: Deployment labels must be env=prod
`

const tagPolicy = `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: e2e-tag}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  matchConditions:
  - {name: not-exempt, expression: "object.metadata.?labels.exempt.orValue('') != 'yes'"}
  validations:
  - expression: "object.spec.containers.all(c, c.image.contains(':'))"
    messageExpression: "'image without a tag: ' + object.spec.containers[0].image"
`

const classicPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-classic}
spec:
  background: false
  rules:
  - name: no-latest
    match: {any: [{resources: {kinds: [Pod], namespaces: [e2e-cel]}}]}
    validate:
      failureAction: Enforce
      message: latest is not a version
      pattern: {spec: {containers: [{image: "!*:latest"}]}}
`

// A ValidatingPolicy denies with Kyverno's messages, through the shared webhook or its own. Generated policies cover the controllers of
// Pods, and classic policies are evaluated too.
func TestValidatingPolicy(t *testing.T) {
	cluster.Namespace(t, "e2e-cel")
	apply(t, "validatingpolicy", "e2e-env", envPolicy)
	denied(t, deployment("test"), `admission webhook "vpol.validate.kyverno.svc-fail" denied the request: Policy e2e-env failed: Deployment labels must be env=prod`)
	denied(t, deployment("prod"), "")

	apply(t, "validatingpolicy", "e2e-tag", tagPolicy)
	denied(t, pod("nginx"), `admission webhook "vpol.validate.kyverno.svc-fail-finegrained-e2e-tag" denied the request: Policy e2e-tag failed: image without a tag: nginx`)
	denied(t, strings.Replace(pod("nginx"), "name: p,", "name: p, labels: {exempt: 'yes'},", 1), "")
	denied(t, strings.Replace(deployment("prod"), "x:1", "x", 1), "Policy e2e-tag ")

	cluster.Apply(t, classicPolicy)
	denied(t, pod("nginx:latest"), "latest is not a version")
	denied(t, pod("nginx"), "Policy e2e-tag failed")
	denied(t, pod("nginx:1"), "")
}

// A namespaced policy applies in its namespace only.
func TestNamespacedValidatingPolicy(t *testing.T) {
	for _, ns := range []string{"e2e-cel-team", "e2e-cel-other"} {
		cluster.Namespace(t, ns)
	}
	policy := `
apiVersion: policies.kyverno.io/v1
kind: NamespacedValidatingPolicy
metadata: {name: e2e-team, namespace: e2e-cel-team}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  validations:
  - {expression: "has(object.data)", message: data is missing}
`
	apply(t, "namespacedvalidatingpolicy", "e2e-team", policy, "-n", "e2e-cel-team")
	denied(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: e2e-cel-team}}", `admission webhook "nvpol.validate.kyverno.svc-fail" denied the request: Policy e2e-team failed: data is missing`)
	denied(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: e2e-cel-other}}", "")
	denied(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: e2e-cel-team}, data: {a: b}}", "")
}

// A policy that does not compile is denied, with a warning of the same text.
func TestReviewOfValidatingPolicy(t *testing.T) {
	const text = "spec.matchConstraints: Required value: a matchConstraints with at least one resource rule is required"
	eventually(t, func() error {
		out, err := kubectl(t, `{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: e2e-bad}, spec: {validations: [{expression: "true"}]}}`,
			"create", "--dry-run=server", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), `admission webhook "validate-policy.kyverno.svc" denied the request: `+text) {
			t.Logf("%s %v", out, err)
			return errNotDenied
		}
		return nil
	})
}
