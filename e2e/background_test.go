package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ephor-dev/ephor/internal/devcluster"
)

// startBackground runs a background controller until the test is over: other tests look at work that nobody carries out.
func startBackground(t *testing.T) *devcluster.Replica {
	t.Helper()
	t.Cleanup(func() {
		if _, err := cluster.Kubectl(context.Background(), nil, "delete", "updaterequests", "-n", "kyverno", "--all"); err != nil {
			t.Error(err)
		}
	})
	return cluster.Start(t, devcluster.Background)
}

// have waits until the field of an object has the value; want "" waits until there is no such object.
func have(t *testing.T, object, field, want string) {
	t.Helper()
	kind, name, _ := strings.Cut(object, " ")
	namespace, name, _ := strings.Cut(name, "/")
	args := []string{"get", kind, name, "-n", namespace, "--ignore-not-found", "-o", "jsonpath={" + field + "}"}
	if want == "" {
		args = []string{"get", kind, name, "-n", namespace, "--ignore-not-found", "-o", "name"}
	}
	eventually(t, func() error {
		if got := must(t, "", args...); got != want {
			return fmt.Errorf("%s %s: %q, want %q", object, field, got, want)
		}
		return nil
	})
}

// keep checks that the field of an object still has the value after the work that is there is done.
func keep(t *testing.T, object, field, want string) {
	t.Helper()
	drained(t)
	have(t, object, field, want)
}

// drained waits until no UpdateRequest is left.
func drained(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		if left := must(t, "", "get", "updaterequests", "-n", "kyverno", "-o", "name"); left != "" {
			return fmt.Errorf("left: %s", left)
		}
		return nil
	})
}

const lifecyclePolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: life-%[1]s}
spec:
  rules:
  - name: data
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [life], selector: {matchLabels: {life: %[1]s}}}}]}
    generate: {synchronize: %[2]t, apiVersion: v1, kind: ConfigMap, name: "{{request.object.metadata.name}}-data", namespace: life-made, data: {data: {k: "%[3]s"}}}
  - name: copy
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [life], selector: {matchLabels: {life: %[1]s}}}}]}
    generate: {synchronize: %[2]t, apiVersion: v1, kind: ConfigMap, name: "{{request.object.metadata.name}}-copy", namespace: life-made, clone: {namespace: life, name: source-%[1]s}}
`

// lifeTrigger is the object that policies generate for.
func lifeTrigger(name, label string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: life, labels: {life: %s}}}", name, label)
}

// What becomes of generated objects when their trigger, they themselves, their source or their policy change (language
// reference §6.4), with and without synchronize.
func TestBackgroundLifecycle(t *testing.T) {
	startBackground(t)
	for _, ns := range []string{"life", "life-made"} {
		must(t, "", "create", "namespace", ns)
		t.Cleanup(func() {
			_, _ = cluster.Kubectl(context.Background(), nil, "delete", "namespace", ns, "--wait=false")
		})
	}
	for _, sync := range []bool{true, false} {
		name := map[bool]string{true: "sync", false: "once"}[sync]
		t.Run(name, func(t *testing.T) { lifecycle(t, name, sync) })
	}
}

func lifecycle(t *testing.T, name string, sync bool) {
	// where what happens depends on synchronize
	follows := func(object, field, synced, kept string) {
		t.Helper()
		if sync {
			have(t, object, field, synced)
		} else {
			keep(t, object, field, kept)
		}
	}
	data, copied := "configmap life-made/"+name+"-data", "configmap life-made/"+name+"-copy"
	var owner string
	eventually(t, func() (err error) {
		owner, err = kubectl(t, "", "get", "configmap", "kube-root-ca.crt", "-n", "life", "-o", "jsonpath={.metadata.uid}")
		return err
	})
	source := "{apiVersion: v1, kind: ConfigMap, metadata: {name: source-" + name + ", namespace: life, labels: {own: label}, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: kube-root-ca.crt, uid: " +
		owner + "}]}, data: {k: %s}}"
	must(t, fmt.Sprintf(source, "s1"), "create", "-f", "-")
	policy := policyFile(t, fmt.Sprintf(lifecyclePolicy, name, sync, "v1"))
	applyPolicies(t, policy)

	must(t, lifeTrigger(name, name), "create", "-f", "-")
	have(t, data, ".data.k", "v1")
	have(t, copied, ".data.k", "s1")
	have(t, copied, ".metadata.labels.own", "label")
	have(t, copied, ".metadata.ownerReferences}{.metadata.name", name+"-copy") // S10: none came along
	uid := must(t, "", "get", "configmap", name, "-n", "life", "-o", "jsonpath={.metadata.uid}")
	have(t, data, `.metadata.labels.generate\.kyverno\.io/trigger-uid`, uid)

	// the downstream is modified, and deleted
	for _, object := range []string{data, copied} {
		_, made, _ := strings.Cut(object, "/")
		must(t, "", "patch", "configmap", made, "-n", "life-made", "--type=merge", "-p", `{"data":{"k":"mine","more":"x"}}`)
		first := map[string]string{data: "v1", copied: "s1"}[object]
		follows(object, ".data.k", first, "mine")
		follows(object, ".data.k}{.data.more", first, "minex")
		must(t, "", "delete", "configmap", made, "-n", "life-made")
		follows(object, ".data.k", first, "")
	}
	if !sync { // made again by the next request
		must(t, "", "annotate", "configmap", name, "-n", "life", "again=yes")
		have(t, data, ".data.k", "v1")
		have(t, copied, ".data.k", "s1")
	}

	// the source is modified
	must(t, "", "patch", "configmap", "source-"+name, "-n", "life", "--type=merge", "-p", `{"data":{"k":"s2"}}`)
	follows(copied, ".data.k", "s2", "s1")

	// the policy is modified
	must(t, fmt.Sprintf(lifecyclePolicy, name, sync, "v2"), "apply", "-f", "-")
	follows(data, ".data.k", "v2", "v1")

	// the trigger does not match any longer, and matches again
	must(t, "", "label", "configmap", name, "-n", "life", "life-", "--overwrite")
	follows(data, ".data.k", "", "v1")
	follows(copied, ".data.k", "", "s1")
	must(t, "", "label", "configmap", name, "-n", "life", "life="+name)
	have(t, data, ".data.k", map[bool]string{true: "v2", false: "v1"}[sync])
	have(t, copied, ".data.k", map[bool]string{true: "s2", false: "s1"}[sync])

	// the source is deleted
	must(t, "", "delete", "configmap", "source-"+name, "-n", "life")
	follows(copied, ".data.k", "", "s1")

	// a copy without a source fails visibly, and is made as soon as there is one
	must(t, lifeTrigger(name+"-2", name), "create", "-f", "-")
	have(t, "configmap life-made/"+name+"-2-data", ".data.k", "v2")
	eventually(t, func() error {
		out := must(t, "", "get", "updaterequests", "-n", "kyverno", "-o", "jsonpath={.items[*].status.message}")
		if !strings.Contains(out, "source resource v1/ConfigMap/life-made/"+name+"-2-copy not found") {
			return fmt.Errorf("no message: %q", out)
		}
		return nil
	})
	must(t, fmt.Sprintf(source, "s3"), "create", "-f", "-")
	have(t, "configmap life-made/"+name+"-2-copy", ".data.k", "s3")
	drained(t)

	// the trigger is deleted; of another one nothing is
	must(t, "", "delete", "configmap", name, "-n", "life")
	follows(data, ".data.k", "", "v1")
	have(t, "configmap life-made/"+name+"-2-data", ".data.k", "v2")

	// the policy is deleted
	must(t, "", "delete", "-f", policy)
	follows("configmap life-made/"+name+"-2-data", ".data.k", "", "v2")
	follows("configmap life-made/"+name+"-2-copy", ".data.k", "", "s3")
}

const existingPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: existing}
spec:
  generateExisting: true
  mutateExistingOnPolicyUpdate: true
  rules:
  - name: make
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [existing], selector: {matchLabels: {kind: trigger}}}}]}
    generate: {apiVersion: v1, kind: ConfigMap, name: "{{request.object.metadata.name}}-made", namespace: existing, data: {data: {k: v}}}
  - name: change
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [existing], selector: {matchLabels: {kind: trigger}}}}]}
    context: [{name: who, variable: {value: "{{request.object.metadata.name}}"}}]
    mutate:
      targets:
      - {apiVersion: v1, kind: ConfigMap, namespace: existing, selector: {matchLabels: {kind: target}}, preconditions: {all: [{key: "{{target.metadata.name}}", operator: NotEquals, value: target-3}]}}
      patchStrategicMerge: {data: {by: "{{who}}"}}
`

// A policy is applied to what exists already, and the targets of a mutate rule are changed one by one.
func TestBackgroundExisting(t *testing.T) {
	startBackground(t)
	must(t, "", "create", "namespace", "existing")
	t.Cleanup(func() {
		_, _ = cluster.Kubectl(context.Background(), nil, "delete", "namespace", "existing", "--wait=false")
	})
	for _, name := range []string{"target-1", "target-2", "target-3"} {
		must(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+", namespace: existing, labels: {kind: target}}}", "create", "-f", "-")
	}
	must(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: first, namespace: existing, labels: {kind: trigger}}}", "create", "-f", "-")
	applyPolicies(t, policyFile(t, existingPolicy))
	have(t, "configmap existing/first-made", ".data.k", "v")
	have(t, "configmap existing/target-1", ".data.by", "first")
	have(t, "configmap existing/target-2", ".data.by", "first")
	must(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: second, namespace: existing, labels: {kind: trigger}}}", "create", "-f", "-")
	have(t, "configmap existing/second-made", ".data.k", "v")
	have(t, "configmap existing/target-2", ".data.by", "second")
	keep(t, "configmap existing/target-3", ".metadata.name}{.data.by", "target-3")
}

const refusedPolicies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: refused-work}
spec:
  rules:
  - name: make
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [default], names: ["refused-*"]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: "{{request.object.metadata.name}}-made", namespace: default, data: {data: {k: v}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: refusing}
spec:
  webhookConfiguration: {matchConditions: [{name: others, expression: "true"}]}
  rules:
  - name: refuse
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [default], names: ["refused-no*"], operations: [CREATE]}}, {resources: {kinds: [ConfigMap], namespaces: [default], names: ["refused-*"], operations: [DELETE], selector: {matchLabels: {stays: "yes"}}}}]}
    validate: {failureAction: Enforce, message: "not today", deny: {}}
`

// A request that another webhook refuses after it asked for work makes, and deletes, nothing.
func TestBackgroundRefusedRequests(t *testing.T) {
	startBackground(t)
	applyPolicies(t, policyFile(t, refusedPolicies))
	configMap := func(name string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + ", namespace: default, labels: {stays: 'yes'}}}"
	}
	if _, err := kubectl(t, configMap("refused-no"), "create", "-f", "-"); err == nil {
		t.Fatal("it was admitted")
	}
	must(t, configMap("refused-yes"), "create", "-f", "-")
	have(t, "configmap default/refused-yes-made", ".data.k", "v")
	if _, err := kubectl(t, "", "delete", "configmap", "refused-yes", "-n", "default"); err == nil {
		t.Fatal("it was deleted")
	}
	time.Sleep(2 * time.Second) // nothing is to happen
	have(t, "configmap default/refused-yes-made", ".data.k", "v")
	have(t, "configmap default/refused-no-made", ".data.k", "")
	must(t, "", "label", "configmap", "refused-yes", "-n", "default", "stays-")
	must(t, "", "delete", "configmap", "refused-yes", "-n", "default")
	have(t, "configmap default/refused-yes-made", ".data.k", "")
}
