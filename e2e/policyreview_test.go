package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// Jane is an administrator of a namespace. Joe may only write policies there. The background controller has the rights that the policies
// need.
const reviewRights = `
apiVersion: v1
kind: Namespace
metadata: {name: e2e-review}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: jane, namespace: e2e-review}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: policies, namespace: e2e-review}
rules: [{apiGroups: [kyverno.io], resources: [policies], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: joe, namespace: e2e-review}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: policies}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: joe}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: kyverno:e2e-review
  labels: {rbac.kyverno.io/aggregate-to-background-controller: "true"}
rules:
- {apiGroups: [""], resources: [configmaps, resourcequotas], verbs: ["*"]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [roles, rolebindings], verbs: ["*"]}
`

const namespacedPolicy = `
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: NAME, namespace: e2e-review}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ConfigMap], names: [e2e-none]}}]}
    RULE
`

func policyBy(name, rule string) string {
	return strings.NewReplacer("NAME", name, "RULE", rule).Replace(namespacedPolicy)
}

// Row S7 of docs/security/threat-model.md: a namespaced policy that creates or changes objects is admitted only if its author has the rights
// to do so.
func TestS7AuthorsRights(t *testing.T) {
	must(t, reviewRights, "apply", "-f", "-")
	t.Cleanup(func() {
		_, _ = cluster.Kubectl(context.Background(), nil, "delete", "clusterrole", "kyverno:e2e-review")
		_, _ = cluster.Kubectl(context.Background(), nil, "delete", "namespace", "e2e-review", "--wait=false")
	})
	const configMap = `generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: e2e-review, data: {data: {k: v}}}`
	as := func(user, policy string, args ...string) error {
		_, err := kubectl(t, policy, append([]string{"apply", "--as", user, "-f", "-"}, args...)...)
		return err
	}
	eventually(t, func() error { return as("jane", policyBy("config-map", configMap), "--dry-run=server") }) // once the rights are aggregated
	for _, c := range []struct{ name, rule, want string }{
		{"a binding", `generate: {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, name: made, namespace: e2e-review, data: {roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: []}}`,
			"path: spec.rules[0].generate.: auth check fails, additional privileges are required for the author of the policy 'jane': jane requires permissions bind for resource rbac.authorization.k8s.io/v1/Role in namespace e2e-review"},
		{"what she only sees", `mutate: {targets: [{apiVersion: v1, kind: ResourceQuota}], patchStrategicMerge: {metadata: {labels: {a: b}}}}`,
			"path: spec.rules[0].mutate.targets.: auth check fails, additional privileges are required for the author of the policy 'jane': jane requires permissions update for resource v1/ResourceQuota in namespace e2e-review"},
		{"a kind of the cluster", `generate: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, name: made, data: {}}`, "the target must be a namespaced resource"},
		{"a kind from a variable", `generate: {apiVersion: v1, kind: "{{ request.object.data.kind }}", name: made, namespace: e2e-review, data: {}}`, "jane requires permissions get,create for resource v1/{{ request.object.data.kind }}"},
	} {
		for _, mode := range []string{"--dry-run=none", "--dry-run=server"} {
			if text, ok := refused(as("jane", policyBy("refused", c.rule), mode)); !ok || !strings.Contains(text, c.want) {
				t.Errorf("%s, %s: %s", c.name, mode, text)
			}
		}
	}
	if err := as("jane", policyBy("config-map", configMap)); err != nil {
		t.Fatal(err)
	}
	// Joe may change Jane's policy, except for the objects that it creates.
	if _, err := kubectl(t, "", "label", "policies.kyverno.io", "config-map", "-n", "e2e-review", "a=b", "--as", "joe"); err != nil {
		t.Error(err)
	}
	if text, ok := refused(as("joe", policyBy("config-map", strings.Replace(configMap, "{k: v}", "{k: w}", 1)))); !ok || !strings.Contains(text, "the author of the policy 'joe': joe requires permissions get,create for resource v1/ConfigMap in namespace e2e-review") {
		t.Errorf("joe changed the policy: %s", text)
	}
}

// Policies are reviewed in every served version, also in dry runs. Likely mistakes are warnings.
func TestReviewInEveryVersion(t *testing.T) {
	for _, version := range []string{"v1", "v2beta1"} {
		text := `{apiVersion: kyverno.io/` + version + `, kind: ClusterPolicy, metadata: {name: e2e-versions}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [%s]}}]}, validate: {message: m, pattern: {%s: x}}}]}}`
		_, err := kubectl(t, fmt.Sprintf(text, "Pod", "+(a)"), "create", "--dry-run=server", "-f", "-")
		if message, ok := refused(err); !ok || !strings.Contains(message, "unsupported anchor +(a)") {
			t.Errorf("%s: %v", version, err)
		}
		_, err = kubectl(t, fmt.Sprintf(text, "Scale", "a"), "create", "--dry-run=server", "-f", "-")
		if message, ok := refused(err); !ok || !strings.Contains(message, "background scan enabled with subresource Scale") || !strings.Contains(message, "Deployment/scale") {
			t.Errorf("%s: %v", version, err)
		}
		// With its flag, kubectl turns warnings into errors.
		_, err = kubectl(t, fmt.Sprintf(text, "Strange", "a"), "create", "--dry-run=server", "--warnings-as-errors", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), "unable to convert GVK to GVR for kinds Strange") {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// A path without the name of a known resource is a warning, since only the API server knows its resources. The evaluation of the rule ends
// in an error.
func TestReviewOfAnUnservedPath(t *testing.T) {
	const text = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-unserved-path}
spec:
  background: false
  rules:
  - name: unique
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    context: [{name: hosts, apiCall: {urlPath: /apis/route.openshift.io/v1/Routes, jmesPath: "items[].spec.host"}}]
    validate: {message: m, deny: {conditions: {all: [{key: "{{ request.object.data.host }}", operator: AnyIn, value: "{{ hosts }}"}]}}}
`
	if _, err := kubectl(t, text, "create", "--dry-run=server", "-f", "-"); err != nil {
		t.Errorf("the policy is refused: %v", err)
	}
	_, err := kubectl(t, text, "create", "--dry-run=server", "--warnings-as-errors", "-f", "-")
	if err == nil || !strings.Contains(err.Error(), `"Routes" is not the name of a resource`) {
		t.Errorf("without the warning: %v", err)
	}
}
