package background

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/e2e/suite"
)

const failingPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: failing}
spec:
  rules:
  - name: copy
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [failing], selector: {matchLabels: {fails: "yes"}}}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: "{{request.object.metadata.name}}-copy", namespace: failing, clone: {namespace: failing, name: source}}
`

// Failed work is Pending, with the reason, while it is retried, and then Failed until it is requested again. The deletion of the trigger
// ends its work.
func TestFailure(t *testing.T) {
	start(t)
	namespaces(t, "failing")
	apply(t, failingPolicy)
	labels := map[string]string{"fails": "yes"}
	const reason = "source resource v1/ConfigMap/failing/t-copy not found"
	create(t, configMap("failing", "t", labels, nil))
	u := failing(t, "failing", reason)
	if u.Status.State != kyvernov2.Pending || u.Status.RetryCount < 1 || u.Labels["generate.kyverno.io/policy-name"] != "failing" {
		t.Errorf("%+v, labels %v", u.Status, u.Labels)
	}
	awaitEvent(t, "PolicyError", "kyverno-generate policy failing/copy error: "+reason)

	// The test sets the number of retries, since nine of them would take minutes.
	suite.Eventually(t, func() error {
		_, err := cluster.Try(t, "", "patch", "updaterequest", u.Name, "-n", suite.Namespace, "--subresource=status", "--type=merge", "-p", `{"status":{"retryCount":10}}`)
		return err
	})
	suite.Until(t, "the work has failed for good", func() error {
		if u = failing(t, "failing", reason); u.Status.State != kyvernov2.Failed {
			return fmt.Errorf("%+v", u.Status)
		}
		return nil
	})
	create(t, configMap("failing", "source", nil, map[string]string{"k": "v"}))
	change(t, "failing", "t", func(o *corev1.ConfigMap) { o.Data = map[string]string{"again": "yes"} })
	has(t, "failing", "t-copy", "k", "v")
	drained(t)

	remove(t, "failing", "source")
	has(t, "failing", "t-copy", "k", gone)
	create(t, configMap("failing", "short", labels, nil))
	failing(t, "failing", "failing/short-copy not found")
	remove(t, "failing", "short")
	drained(t) // also of t, whose copy was deleted with its source
}

const loopPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: loop}
spec:
  rules:
  - name: again
    skipBackgroundRequests: false
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [loop], names: ["x*"]}}]}
    generate: {apiVersion: v1, kind: ConfigMap, name: "{{request.object.metadata.name}}x", namespace: loop, data: {data: {k: v}}}
`

// Admission warns of policies that trigger each other, and the controller stops them after ten steps with an error.
func TestLoop(t *testing.T) {
	start(t)
	namespaces(t, "loop")
	_, err := cluster.Try(t, loopPolicy, "create", "--dry-run=server", "--warnings-as-errors", "-f", "-")
	if err == nil || !strings.Contains(err.Error(), "rules may trigger each other for ever: loop/again → loop/again") {
		t.Errorf("the policy is accepted with: %v", err)
	}
	apply(t, loopPolicy)
	create(t, configMap("loop", "x", nil, nil))
	u := failing(t, "loop", "rule again of policy loop was triggered by 10 writes of the background controller in a row")
	if u.Status.State != kyvernov2.Failed {
		t.Errorf("%+v", u.Status)
	}
	awaitEvent(t, "PolicyError", "policy loop/again error: rule again of policy loop was triggered by 10 writes")
	made := strings.Fields(cluster.Must(t, "", "get", "configmaps", "-n", "loop", "-o", "jsonpath={.items[?(@.data.k=='v')].metadata.name}"))
	if len(made) != 11 { // the object of the trigger, and ten more
		t.Errorf("%d objects were made: %q", len(made), made)
	}
	// The count restarts for a request of another client.
	change(t, "loop", made[len(made)-1], func(o *corev1.ConfigMap) { o.Data["by"] = "hand" })
	has(t, "loop", made[len(made)-1]+"x", "k", "v")
}

const existingPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: existing}
spec:
  generateExisting: true
  rules:
  - name: make
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [existing], names: ["t-*"]}}]}
    generate: {apiVersion: v1, kind: ConfigMap, name: "{{request.object.metadata.name}}-made", namespace: existing, data: {data: {k: v}}}
`

// Existing objects are processed in batches, which wait while there are as many UpdateRequests as updateRequestThreshold allows. An event
// reports the wait, and no object is skipped. Generated objects do not trigger their own rule again.
func TestExistingAndThreshold(t *testing.T) {
	start(t)
	namespaces(t, "existing", "stuck")
	threshold := func(n string) {
		cluster.Must(t, "", "patch", "configmap", "kyverno", "-n", suite.Namespace, "--type=merge", "-p", `{"data":{"updateRequestThreshold":"`+n+`"}}`)
	}
	t.Cleanup(func() { threshold("1000") })
	apply(t, strings.ReplaceAll(failingPolicy, "failing", "stuck"))
	create(t, configMap("stuck", "t", map[string]string{"fails": "yes"}, nil))
	failing(t, "stuck", "not found") // this request exists throughout
	const n = 130
	for i := range n {
		create(t, configMap("existing", fmt.Sprint("t-", i), nil, nil))
	}
	threshold("1")
	apply(t, existingPolicy)
	awaitEvent(t, "PolicyError", "kyverno-generate policy existing/make error: its work is delayed: as many UpdateRequests as updateRequestThreshold allows (1) wait for execution")
	if got := state(t, "existing", "t-0-made", "k"); got != gone {
		t.Errorf("made beyond the threshold: %q", got)
	}
	create(t, configMap("stuck", "source", nil, nil))
	made := func(want int) {
		t.Helper()
		suite.Until(t, fmt.Sprint(want, " objects are made"), func() error {
			got := strings.Fields(cluster.Must(t, "", "get", "configmaps", "-n", "existing", "-l", "generate.kyverno.io/policy-name=existing", "-o", "name"))
			if len(got) != want {
				return fmt.Errorf("there are %d", len(got))
			}
			return nil
		})
	}
	made(n)
	threshold("1000")
	cluster.Must(t, strings.Replace(existingPolicy, "k: v", "k: w", 1), "apply", "-f", "-") // the existing objects are processed again
	create(t, configMap("existing", "t-last", nil, nil))
	made(n + 1)
	create(t, configMap("existing", "t-end", nil, nil)) // generated objects would have caused work before this one
	made(n + 2)
	drained(t)
	made(n + 2)
}

const absentPolicies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: absent-sync}
spec:
  rules:
  - name: make
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [absent], names: [t]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: sync-made, namespace: absent, data: {data: {k: v}}}
  - name: variable
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [absent], names: [t]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: "{{request.object.data.kind}}", name: variable-made, namespace: absent, data: {metadata: {labels: {a: b}}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: absent-once}
spec:
  rules:
  - name: make
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [absent], names: [t]}}]}
    generate: {apiVersion: v1, kind: ConfigMap, name: once-made, namespace: absent, data: {data: {k: v}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: absent-orphan}
spec:
  rules:
  - name: make
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [absent], names: [t]}}]}
    generate: {synchronize: true, orphanDownstreamOnPolicyDelete: true, apiVersion: v1, kind: ConfigMap, name: orphan-made, namespace: absent, data: {data: {k: v}}}
`

// Objects of policies that are deleted while no background controller runs are deleted at the next start, also of kinds that come from
// variables.
func TestPolicyDeletedDuringDowntime(t *testing.T) {
	r := start(t)
	namespaces(t, "absent")
	apply(t, absentPolicies)
	create(t, configMap("absent", "t", nil, map[string]string{"kind": "Secret"}))
	for _, name := range []string{"sync-made", "once-made", "orphan-made"} {
		has(t, "absent", name, "k", "v")
	}
	drained(t)
	secret := func() string {
		return cluster.Must(t, "", "get", "secret", "variable-made", "-n", "absent", "--ignore-not-found", "-o", "name")
	}
	if secret() == "" {
		t.Fatal("no Secret was made")
	}
	suite.Stop(t, r)
	cluster.Must(t, absentPolicies, "delete", "-f", "-")
	if got := state(t, "absent", "sync-made", "k"); got != "v" {
		t.Fatalf("nobody runs, and the object is %q", got)
	}
	start(t)
	has(t, "absent", "sync-made", "k", gone)
	suite.Eventually(t, func() error {
		if s := secret(); s != "" {
			return fmt.Errorf("%s is there", s)
		}
		return nil
	})
	settled(t, "absent-sync", "absent-once", "absent-orphan")
	for _, name := range []string{"once-made", "orphan-made"} {
		if got := state(t, "absent", name, "k"); got != "v" {
			t.Errorf("%s is %q", name, got)
		}
	}
}

const togetherPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: together}
spec:
  rules:
  - name: make
    match: {any: [{resources: {kinds: [Namespace], names: ["together-*"]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: made, namespace: "{{request.object.metadata.name}}", data: {data: {k: v}}}
`

// The objects of a deleted namespace are deleted with it, which is neither reverted nor a failure.
func TestNamespaceDeleted(t *testing.T) {
	start(t)
	apply(t, togetherPolicy)
	namespaces(t, "together-1", "together-2")
	has(t, "together-1", "made", "k", "v")
	has(t, "together-2", "made", "k", "v")
	cluster.Must(t, "", "delete", "namespace", "together-1")
	drained(t)
	if got := state(t, "together-1", "made", "k") + state(t, "together-2", "made", "k"); got != gone+"v" {
		t.Errorf("afterwards: %s", got)
	}
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

// A request that another webhook denies after Ephor wrote the UpdateRequest generates and deletes nothing.
func TestRefusedRequests(t *testing.T) {
	start(t)
	apply(t, refusedPolicies)
	manifest := func(name string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + ", namespace: default, labels: {stays: 'yes'}}}"
	}
	if _, err := cluster.Try(t, manifest("refused-no"), "create", "-f", "-"); err == nil {
		t.Fatal("it was admitted")
	}
	cluster.Must(t, manifest("refused-yes"), "create", "-f", "-")
	has(t, "default", "refused-yes-made", "k", "v")
	if _, err := cluster.Try(t, "", "delete", "configmap", "refused-yes", "-n", "default"); err == nil {
		t.Fatal("it was deleted")
	}
	cluster.Must(t, manifest("refused-later"), "create", "-f", "-") // work of the denied requests would be older
	has(t, "default", "refused-later-made", "k", "v")
	drained(t)
	has(t, "default", "refused-yes-made", "k", "v")
	has(t, "default", "refused-no-made", "k", gone)
	cluster.Must(t, "", "label", "configmap", "refused-yes", "refused-later", "-n", "default", "stays-")
	cluster.Must(t, "", "delete", "configmap", "refused-yes", "refused-later", "-n", "default")
	has(t, "default", "refused-yes-made", "k", gone)
	has(t, "default", "refused-later-made", "k", gone)
}
