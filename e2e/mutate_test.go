package e2e

import (
	"strings"
	"testing"
)

const mutatePolicies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: mutate-e2e}
spec:
  rules:
  - name: labels
    match: {any: [{resources: {kinds: [Pod]}}]}
    mutate:
      patchStrategicMerge:
        metadata: {labels: {+(team): none}}
        spec:
          containers:
          - (image): "*:latest"
            imagePullPolicy: Always
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: mutate-e2e-each}
spec:
  rules:
  - name: keys
    match: {any: [{resources: {kinds: [ConfigMap], names: [mutate-*]}}]}
    mutate:
      foreach:
      - list: items(request.object.data, 'key', 'value')
        patchesJson6902: |-
          - {op: add, path: "/metadata/annotations/{{ element.key }}", value: "{{ to_upper(element.value) }}"}
  - name: refuse
    match: {any: [{resources: {kinds: [ConfigMap], names: [mutate-*]}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {owner: "{{ request.object.metadata.annotations.owner }}"}}}}
  - name: check
    match: {any: [{resources: {kinds: [ConfigMap], names: [mutate-*]}}]}
    validate:
      failureAction: Enforce
      message: the mutated object is evaluated
      pattern: {metadata: {labels: {owner: "A*"}}}
`

// The API server stores the objects that mutate rules return, and validate rules evaluate these objects.
func TestMutation(t *testing.T) {
	applyPolicies(t, policyFile(t, mutatePolicies))
	get := func(manifest, path string) string {
		return must(t, manifest, "create", "--dry-run=server", "-f", "-", "-o", "jsonpath="+path)
	}
	const containers = `
      containers:
      - {name: a, image: "registry.example.com/a:latest", imagePullPolicy: IfNotPresent, ports: [{containerPort: 8080}]}
      - {name: b, image: "registry.example.com/b:1", imagePullPolicy: IfNotPresent}
`
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: mutate-pod, namespace: default}\nspec:" + containers
	const fields = `{.metadata.labels.team} {.spec.containers[*].name} {.spec.containers[*].imagePullPolicy} {.spec.containers[0].ports[0].containerPort}`
	if got := get(pod, fields); got != "none a b Always IfNotPresent 8080" {
		t.Errorf("Pod: %s", got)
	}
	deployment := `
apiVersion: apps/v1
kind: Deployment
metadata: {name: mutate-deployment, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x, team: own}}
    spec:` + containers
	const template = `{.spec.template.metadata.labels.team} {.spec.template.spec.containers[*].imagePullPolicy} {.spec.replicas}`
	if got := get(deployment, template); got != "own Always IfNotPresent 3" {
		t.Errorf("Deployment: %s", got)
	}
	configMap := func(owner string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mutate-me, namespace: default}\ndata: {" + owner + "x: one}\n"
	}
	if got := get(configMap("owner: ann, "), `{.metadata.annotations.owner} {.metadata.annotations.x} {.metadata.labels.owner}`); got != "ANN ONE ANN" {
		t.Errorf("ConfigMap: %s", got)
	}
	for _, c := range []struct{ owner, want string }{
		{"", `admission webhook "mutate.kyverno.svc-fail" denied the request: mutation policy mutate-e2e-each error: failed to apply policy ` +
			`mutate-e2e-each rules [refuse: variable substitution failed: failed to resolve request.object.metadata.annotations.owner at path ` +
			`/mutate/patchStrategicMerge/metadata/labels/owner: JMESPath query failed: Unknown key "owner" in path]`},
		{"owner: bob, ", "the mutated object is evaluated. rule check failed at path /metadata/labels/owner/"},
	} {
		_, err := kubectl(t, configMap(c.owner), "create", "--dry-run=server", "-f", "-")
		if text, ok := refused(err); !ok || !strings.Contains(text, c.want) {
			t.Errorf("owner %q: %v\nwant %s", c.owner, err, c.want)
		}
	}
}
