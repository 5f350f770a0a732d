package e2e

import (
	"context"
	"strings"
	"testing"
)

const apiCallPolicies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: ask-the-api}
spec:
  background: false
  rules:
  - name: quota
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [calls], names: ["limited-*"]}}]}
    context:
    - name: count
      apiCall: {urlPath: "/api/v1/namespaces/{{ request.namespace }}/configmaps?labelSelector=counted=yes", jmesPath: "items | length(@)"}
    validate:
      failureAction: Enforce
      message: "there are {{ count }} already"
      deny: {conditions: {all: [{key: "{{ count }}", operator: GreaterThan, value: 0}]}}
  - name: access
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [calls], names: ["access-*"]}}]}
    context:
    - name: review
      apiCall:
        method: POST
        urlPath: /apis/authorization.k8s.io/v1/subjectaccessreviews
        data:
        - {key: kind, value: SubjectAccessReview}
        - {key: apiVersion, value: authorization.k8s.io/v1}
        - {key: spec, value: {user: "{{ request.object.data.user }}", resourceAttributes: {namespace: calls, verb: delete, resource: configmaps}}}
    validate:
      failureAction: Enforce
      message: "{{ request.object.data.user }} may not do this"
      deny: {conditions: {all: [{key: "{{ review.status.allowed }}", operator: NotEquals, value: true}]}}
  - name: missing
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [calls], names: ["default-*"]}}]}
    context:
    - {name: absent, apiCall: {urlPath: /api/v1/namespaces/calls/configmaps/nothing, jmesPath: data.x, default: fallback}}
    validate:
      failureAction: Enforce
      message: "got {{ absent }}"
      deny: {conditions: {all: [{key: "{{ absent }}", operator: Equals, value: fallback}]}}
  - name: forbidden
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [calls], names: ["forbidden-*"]}}]}
    context:
    - {name: nodes, apiCall: {urlPath: /api/v1/nodes}}
    validate: {failureAction: Enforce, message: bad, deny: {conditions: {all: [{key: "{{ nodes }}", operator: Equals, value: x}]}}}
  - name: service
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [calls], names: ["service-*"]}}]}
    context:
    - {name: answer, apiCall: {service: {url: "http://127.0.0.1:1/"}}}
    validate: {failureAction: Enforce, message: bad, deny: {conditions: {all: [{key: "{{ answer }}", operator: Equals, value: x}]}}}
`

// TestAPICalls checks that context entries query the real API server with the rights of the process, and cannot call other servers unless
// they are permitted.
func TestAPICalls(t *testing.T) {
	cluster.Namespace(t, "calls")
	applyPolicies(t, policyFile(t, apiCallPolicies))
	configMap := func(name, labels, user string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: calls, labels: {" + labels + "}}\ndata: {user: \"" + user + "\"}\n"
	}
	eventually(t, func() error {
		_, err := kubectl(t, configMap("default-x", "", ""), "create", "--dry-run=server", "-f", "-")
		if text, ok := refused(err); ok && strings.Contains(text, "got fallback") {
			return nil
		}
		return errAdmitted
	})
	for _, c := range []struct{ object, want string }{
		{configMap("limited-1", "counted: \"yes\"", ""), ""},
		{configMap("limited-2", "counted: \"yes\"", ""), "there are 1 already"},
		{configMap("access-1", "", "nobody"), "nobody may not do this"},
		{configMap("access-2", "", "system:serviceaccount:kube-system:namespace-controller"), ""},
		{configMap("forbidden-1", "", ""), "failed to GET resource with raw url: /api/v1/nodes: permission denied: nodes is forbidden"},
		{configMap("service-1", "", ""), "connection to 127.0.0.1:1 blocked: IP 127.0.0.1 falls in blocked range 127.0.0.0/8"},
	} {
		_, err := kubectl(t, c.object, "create", "-f", "-")
		text, ok := refused(err)
		if (c.want != "") != ok || !strings.Contains(text, c.want) || err != nil && !ok {
			t.Errorf("%s: %v, want %q", c.object, err, c.want)
		}
	}
}

// A namespaced policy that reads outside its namespace is rejected at admission (S1 in docs/security/threat-model.md).
func TestAPICallsOfNamespacedPolicies(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/kube-system/secrets":                      "is out of reach",
		"/api/v1/namespaces/default/%2e%2e/kube-system/secrets":       "it has a dot segment",
		"/api/v1/namespaces/default/configmaps?labelSelector=a%3Db":   "",
		"/api/v1/namespaces/kube-system/secrets#/namespaces/default/": "it holds a `#`",
	} {
		_, err := kubectl(t, `
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: confined, namespace: default}
spec:
  background: false
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Secret]}}]}
    context: [{name: a, apiCall: {urlPath: "`+path+`"}}]
    validate: {deny: {conditions: {all: [{key: "{{ a }}", operator: Equals, value: x}]}}}
`, "create", "--dry-run=server", "-f", "-")
		text, ok := refused(err)
		if (want != "") != ok || !strings.Contains(text, want) || err != nil && !ok {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// The API server accepts cleanup policies and global context entries in every served version, and sets Kyverno's defaults.
func TestCleanupAndGlobalEntriesAreStored(t *testing.T) {
	const objects = `
apiVersion: kyverno.io/v2beta1
kind: ClusterCleanupPolicy
metadata: {name: stored}
spec: {schedule: "0 0 1 1 *", match: {any: [{resources: {kinds: [Pod]}}]}}
---
apiVersion: kyverno.io/v2
kind: CleanupPolicy
metadata: {name: stored, namespace: default}
spec: {schedule: "0 0 1 1 *", match: {any: [{resources: {kinds: [Pod]}}]}, deletionPropagationPolicy: Orphan}
---
apiVersion: kyverno.io/v2alpha1
kind: GlobalContextEntry
metadata: {name: stored}
spec: {apiCall: {urlPath: /version}}
`
	must(t, objects, "create", "-f", "-")
	t.Cleanup(func() { _, _ = cluster.Kubectl(context.Background(), []byte(objects), "delete", "-f", "-") })
	if got := must(t, "", "get", "globalcontextentries.v2.kyverno.io", "stored", "-o", "jsonpath={.spec.apiCall.refreshInterval} {.spec.apiCall.retryLimit} {.spec.apiCall.method}"); got != "10m 3 GET" {
		t.Errorf("defaults: %s", got)
	}
	if got := must(t, "", "get", "ccleanpol", "stored", "-o", "jsonpath={.apiVersion}"); got != "kyverno.io/v2" {
		t.Errorf("version: %s", got)
	}
	const both = "apiVersion: kyverno.io/v2\nkind: GlobalContextEntry\nmetadata: {name: both}\nspec: {apiCall: {urlPath: /version}, kubernetesResource: {version: v1, resource: pods}}\n"
	if _, err := kubectl(t, both, "create", "-f", "-"); err == nil || !strings.Contains(err.Error(), "oneOf") {
		t.Errorf("an entry of two kinds: %v", err)
	}
}
