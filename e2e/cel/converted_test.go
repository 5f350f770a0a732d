package cel

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ephor.invalid/ephor/internal/cli/convert"
)

// What `ephor convert --target native` writes is accepted by the API server, which then decides alone as the classic rules do: about Pods, their
// controllers and CronJobs, and with patches.
func TestConvertedToNative(t *testing.T) {
	const policies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-plain}
spec:
  validationFailureAction: Enforce
  rules:
  - name: limits
    match: {any: [{resources: {kinds: [Pod], namespaces: [e2e-plain]}}]}
    validate:
      message: every container needs a memory limit
      allowExistingViolations: false
      pattern: {spec: {containers: [{image: "!*:latest", resources: {limits: {memory: "?*"}}}]}}
  - name: hosts
    match: {any: [{resources: {kinds: [Pod], namespaces: [e2e-plain]}}]}
    validate: {allowExistingViolations: false, podSecurity: {level: baseline, version: v1.30, exclude: [{controlName: Host Ports, images: ["a*"]}]}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-label}
spec:
  rules:
  - name: label
    match: {any: [{resources: {kinds: [ConfigMap], names: [e2e-plain*]}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {+(team): none}}}}
`
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, report bytes.Buffer
	cmd := convert.New()
	cmd.SetArgs([]string{file, "--target", "native", "--prove", "--samples", "100"})
	cmd.SetOut(&out)
	cmd.SetErr(&report)
	if err := cmd.Execute(); err != nil {
		t.Fatalf("%v\n%s", err, &report)
	}
	cluster.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: e2e-plain}}")
	cluster.Apply(t, out.String())

	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: e2e-plain}, spec: {%s}}"
	const limited = "containers: [{name: a, image: 'a:1', resources: {limits: {memory: 1Gi}}}]"
	const unlimited = "containers: [{name: a, image: 'a:1'}]"
	const message = "every container needs a memory limit"
	denied(t, fmt.Sprintf(pod, "e2e-plain", unlimited), message)
	denied(t, fmt.Sprintf(pod, "e2e-plain", limited), "")
	denied(t, fmt.Sprintf(pod, "e2e-plain", limited+", hostNetwork: true"), "hostNetwork, hostPID and hostIPC may not be true")
	denied(t, fmt.Sprintf(pod, "e2e-plain", "containers: [{name: a, image: 'b:1', ports: [{containerPort: 80, hostPort: 80}], resources: {limits: {memory: 1Gi}}}]"), "containers may not have ports of the node")
	denied(t, fmt.Sprintf(pod, "e2e-plain", "containers: [{name: a, image: 'a:1', ports: [{containerPort: 80, hostPort: 80}], resources: {limits: {memory: 1Gi}}}]"), "")

	const template = "selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {%s}}"
	deployment := "{apiVersion: apps/v1, kind: Deployment, metadata: {name: e2e-plain, namespace: e2e-plain}, spec: {" + template + "}}"
	denied(t, fmt.Sprintf(deployment, unlimited), message)
	denied(t, fmt.Sprintf(deployment, limited), "")
	cron := "{apiVersion: batch/v1, kind: CronJob, metadata: {name: e2e-plain, namespace: e2e-plain}, spec: {schedule: '@daily', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, %s}}}}}}"
	denied(t, fmt.Sprintf(cron, unlimited), message)
	denied(t, fmt.Sprintf(cron, limited), "")

	eventually(t, func() error {
		got, err := kubectl(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: e2e-plain, namespace: default}}", "create", "--dry-run=server", "-f", "-", "-o", "jsonpath={.metadata.labels.team}")
		if err == nil && got != "none" {
			err = fmt.Errorf("the label is %q", got)
		}
		return err
	})
}
