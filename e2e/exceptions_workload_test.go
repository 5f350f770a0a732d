package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// The rule reads the whole spec and the labels, so a Pod is exempt only if all defaults and additions of the API server and its controllers are
// known.
const workloadPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-workload}
spec:
  rules:
  - name: processes
    match: {any: [{resources: {kinds: [Pod], namespaces: [e2e-workload]}}]}
    validate:
      failureAction: Enforce
      message: "no processes of the node"
      deny:
        conditions:
          any:
          - {key: "{{ to_string(request.object.spec) }} {{ to_string(request.object.metadata.labels) }}", operator: AnyIn, value: ['*"hostPID":true*']}
`

const workloadException = `
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {name: web, namespace: e2e-workload, annotations: {exceptions.ephor.dev/covers: workload}}
spec:
  match: {any: [{resources: {kinds: [Deployment, StatefulSet, CronJob], names: [web], namespaces: [e2e-workload]}}]}
  exceptions: [{policyName: e2e-workload, ruleNames: [processes]}]
`

// The template leaves much to defaults.
const workloadTemplate = `{metadata: {labels: {app: web}}, spec: {hostPID: true, restartPolicy: %[1]s, containers: [{name: c, image: "registry.example.com/web:1",
  ports: [{containerPort: 80}], resources: {limits: {cpu: 10m}}, livenessProbe: {httpGet: {port: 80}}}]}}`

const workloads = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: e2e-workload}
spec: {replicas: 200, selector: {matchLabels: {app: web}}, template: %[2]s}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: e2e-workload}
spec:
  serviceName: web
  selector: {matchLabels: {app: web}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
  template: %[2]s
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: web, namespace: e2e-workload}
spec: {schedule: "* * * * *", jobTemplate: {spec: {template: %[1]s}}}
`

// An exception for controllers by name covers all that they make: 200 Pods at once, whose ReplicaSet has just been created. It covers nothing that
// only refers to them.
func TestExceptionCoversWorkloads(t *testing.T) {
	cluster.Namespace(t, "e2e-workload")
	applyPolicies(t, policyFile(t, workloadPolicy))
	never := fmt.Sprintf(workloadTemplate, "Never")
	objects := fmt.Sprintf(workloads, never, fmt.Sprintf(workloadTemplate, "Always"))
	eventually(t, func() error {
		if _, err := kubectl(t, objects, "create", "-f", "-", "--dry-run=server"); err == nil {
			return errAdmitted
		}
		return nil
	})
	must(t, workloadException, "create", "-f", "-")
	eventually(t, func() error {
		_, err := kubectl(t, objects, "create", "-f", "-", "--dry-run=server")
		return err
	})
	must(t, objects, "create", "-f", "-")
	pods := func(of string) (uids []string) {
		for _, line := range strings.Fields(must(t, "", "get", "pods", "-n", "e2e-workload", "-o", "jsonpath={range .items[*]}{.metadata.ownerReferences[0].kind}/{.metadata.name}{\"\\n\"}{end}")) {
			if kind, name, _ := strings.Cut(line, "/"); kind == of {
				uids = append(uids, name)
			}
		}
		return uids
	}
	eventually(t, func() error {
		if n := len(pods("ReplicaSet")); n != 200 {
			return fmt.Errorf("%d Pods of the Deployment: %s", n, must(t, "", "get", "events", "-n", "e2e-workload", "--field-selector", "type=Warning", "-o", "jsonpath={.items[*].message}"))
		}
		if n := len(pods("StatefulSet")); n != 1 {
			return fmt.Errorf("%d Pods of the StatefulSet: %s", n, must(t, "", "get", "events", "-n", "e2e-workload", "--field-selector", "reason=FailedCreate", "-o", "jsonpath={.items[*].message}"))
		}
		return nil
	})
	if refusals := must(t, "", "get", "events", "-n", "e2e-workload", "--field-selector", "reason=FailedCreate", "-o", "jsonpath={.items[*].message}"); strings.Contains(refusals, "no processes of the node") {
		t.Errorf("a controller was refused: %s", refusals)
	}
	must(t, "", "create", "job", "web-manual", "-n", "e2e-workload", "--from=cronjob/web")
	eventually(t, func() error {
		if len(pods("Job")) == 0 {
			return fmt.Errorf("no Pod of the Job: %s", must(t, "", "get", "events", "-n", "e2e-workload", "--field-selector", "reason=FailedCreate", "-o", "jsonpath={.items[*].message}"))
		}
		return nil
	})

	// An update of an exempt Pod is compared again.
	pod := pods("ReplicaSet")[0]
	must(t, "", "annotate", "pod", pod, "-n", "e2e-workload", "note=x", "--dry-run=server")

	// True UIDs of live owners, and other content.
	set := strings.Fields(must(t, "", "get", "replicasets", "-n", "e2e-workload", "-o", "jsonpath={.items[0].metadata.name} {.items[0].metadata.uid}"))
	deployment := must(t, "", "get", "deployment", "web", "-n", "e2e-workload", "-o", "jsonpath={.metadata.uid}")
	for what, object := range map[string]string{
		"a bare Pod": `{apiVersion: v1, kind: Pod, metadata: {name: web-bare, namespace: e2e-workload}, spec: {hostPID: true, containers: [{name: c, image: "registry.example.com/web:1"}]}}`,
		"a Pod with the reference of a live ReplicaSet": fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %[1]s-forged, namespace: e2e-workload, labels: {app: web},
			ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: %[1]s, uid: %[2]s, controller: true}]}, spec: {hostPID: true, containers: [{name: c, image: "registry.example.com/evil:1"}]}}`, set[0], set[1]),
		"a Pod with the reference of a live Deployment": fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: web-forged, namespace: e2e-workload, labels: {app: web},
			ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: %s, controller: true}]}, spec: {hostPID: true, containers: [{name: c, image: "registry.example.com/evil:1"}]}}`, deployment),
	} {
		_, err := kubectl(t, object, "create", "-f", "-", "--dry-run=server")
		if text, ok := refused(err); !ok || !strings.Contains(text, "no processes of the node") {
			t.Errorf("%s is not refused: %s %v", what, text, err)
		}
	}

	// The resourceFilters of the chart exclude ReplicaSets, so a tenant may create one. Its Pods are refused.
	must(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-forged, namespace: e2e-workload, labels: {app: mine},
		ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: %s, controller: true}]}, spec: {selector: {matchLabels: {app: mine}}, template: {metadata: {labels: {app: mine}},
		spec: {hostPID: true, containers: [{name: c, image: "registry.example.com/evil:1"}]}}}}`, deployment), "create", "-f", "-")
	eventually(t, func() error {
		said := must(t, "", "get", "events", "-n", "e2e-workload", "--field-selector", "involvedObject.name=web-forged,reason=FailedCreate", "-o", "jsonpath={.items[*].message}")
		if !strings.Contains(said, "no processes of the node") {
			return fmt.Errorf("a Pod of a forged ReplicaSet is not refused: %s", said)
		}
		return nil
	})
}
