package cel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/cli"
	"ephor.invalid/ephor/internal/devcluster"
)

// deletingObjects are the rights to delete ConfigMaps, two namespaces, and a tenant who may write policies in one of them.
const deletingObjects = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-deleting, labels: {rbac.kyverno.io/aggregate-to-cleanup-controller: "true"}}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [list, delete]}
---
apiVersion: v1
kind: Namespace
metadata: {name: e2e-del, labels: {clean: "yes"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: e2e-del-other}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: author, namespace: e2e-del}
rules:
- {apiGroups: [policies.kyverno.io], resources: [namespaceddeletingpolicies], verbs: ["*"]}
- {apiGroups: [""], resources: [configmaps], verbs: [list, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: author, namespace: e2e-del}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: author}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: e2e-author}]
`

// onceAYear is the schedule of policies that tests start by hand.
const onceAYear = "0 0 1 1 *"

// deleting returns a policy that deletes ConfigMaps with the label batch=⟨name⟩ and a size over 10.
func deleting(kind, name, more string) string {
	return fmt.Sprintf(`
apiVersion: policies.kyverno.io/v1
kind: %s
metadata: {name: %s%s}
spec:
  schedule: %q
  deletionPropagationPolicy: Background
  matchConstraints:
    objectSelector: {matchLabels: {batch: %s}}
    resourceRules: [{apiGroups: ["", apps], apiVersions: ["*"], resources: [configmaps]}]
    excludeResourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps], resourceNames: [excluded]}]
  variables:
  - {name: size, expression: int(object.data.size)}
  conditions:
  - {name: large, expression: variables.size > 10}
  - {name: kept, expression: "!('keep' in namespaceObject.metadata.?labels.orValue({}))"}
`, kind, name, more, onceAYear, name)
}

func batch(name, namespace, batch, size string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s, labels: {batch: %s}}\ndata: {size: %q}\n---\n", name, namespace, batch, size)
}

// runNow makes a policy due at once, because its status reports a last run long ago.
func runNow(t *testing.T, resource, name string, flags ...string) {
	t.Helper()
	must(t, "", append([]string{"patch", resource, name, "--subresource=status", "--type=merge", "-p", `{"status":{"lastExecutionTime":"2020-01-01T00:00:00Z"}}`}, flags...)...)
}

// statusSays waits until a condition of a policy has the status, reason and message, and the policy is ready or not.
func statusSays(t *testing.T, want, condition, resource, name string, flags ...string) {
	t.Helper()
	const path = `jsonpath={.status.conditionStatus.ready} {range .status.conditionStatus.conditions[?(@.type=="%s")]}{.status} {.reason} {.message}{end}`
	eventually(t, func() error {
		got, err := kubectl(t, "", append([]string{"get", resource, name, "-o", fmt.Sprintf(path, condition)}, flags...)...)
		if err == nil && !strings.Contains(got, want) {
			err = fmt.Errorf("the status says %q, not %q", got, want)
		}
		return err
	})
}

func left(t *testing.T, namespace, selector string) string {
	t.Helper()
	return must(t, "", "get", "configmaps", "-n", namespace, "-l", selector, "-o", "jsonpath={.items[*].metadata.name}")
}

// hasEvent waits for an event with this controller, type, reason, action and note.
func hasEvent(t *testing.T, namespace, want string) {
	t.Helper()
	eventually(t, func() error {
		text, err := kubectl(t, "", "get", "events.events.k8s.io", "-n", namespace, "-o",
			`jsonpath={range .items[*]}{.regarding.kind}/{.regarding.name} {.related.kind} {.reportingController} {.type} {.reason} {.action}: {.note}{"\n"}{end}`)
		if err == nil && !strings.Contains(text, want) {
			err = fmt.Errorf("no event %q in\n%s", want, text)
		}
		return err
	})
}

// DeletingPolicies delete the selected objects only, on their schedule, list them in a preview, and stop at the limit.
func TestDeletingPolicies(t *testing.T) {
	must(t, deletingObjects, "apply", "-f", "-")
	must(t, "", "patch", "configmap", "kyverno", "-n", suite.Namespace, "--type=merge", "-p", `{"data":{"generateSuccessEvents":"true"}}`)
	t.Cleanup(func() {
		must(t, "", "patch", "configmap", "kyverno", "-n", suite.Namespace, "--type=merge", "-p", `{"data":{"generateSuccessEvents":null}}`)
		_, _ = cluster.Kubectl(context.Background(), []byte(deletingObjects), "delete", "--ignore-not-found", "--wait=false", "-f", "-")
	})
	t.Run("review", deletingReview)
	r := cluster.Start(t, devcluster.Cleanup, exceptionFlag)
	t.Run("policies", func(t *testing.T) { deletingPolicies(t, r) })
	t.Run("namespaced", deletingNamespaced)
	t.Run("rights", deletingRights)
	t.Run("schedule", deletingSchedule)
	t.Run("exceptions", deletingExceptions)
	t.Run("preview", deletingPreview)
	suite.Stop(t, r)
	cluster.Start(t, devcluster.Cleanup, "--maxDeletionsPerRun=2")
	t.Run("limit", deletingLimit)
}

// A mistake is denied with its field path, and so is a namespaced policy whose author may not delete its objects.
func deletingReview(t *testing.T) {
	refuses := func(manifest, text string, flags ...string) {
		t.Helper()
		denied := func() error {
			_, err := kubectl(t, manifest, append([]string{"create", "--dry-run=server", "-f", "-"}, flags...)...)
			switch {
			case text == "":
				return err
			case err == nil:
				return errNotDenied
			case !strings.Contains(err.Error(), text):
				return fmt.Errorf("%q is not in %w", text, err)
			}
			return nil
		}
		eventually(t, denied)
	}
	good, own := deleting("DeletingPolicy", "mistaken", ""), deleting("NamespacedDeletingPolicy", "mistaken", ", namespace: e2e-del")
	for _, kind := range []string{good, own} {
		refuses(strings.Replace(kind, onceAYear, "often", 1), "spec.schedule: schedule spec in the deletingPolicy is not in proper cron format: ")
		refuses(strings.Replace(kind, "variables.size > 10", "variables.size", 1), "spec.conditions[0].expression: Invalid value: \"variables.size\": output is expected to be of type bool")
		refuses(strings.Replace(kind, "int(object.data.size)", "nothing.there", 1), "spec.variables[0].expression: Invalid value: \"nothing.there\": ERROR: <input>:1:1: undeclared reference to 'nothing'")
		refuses(kind[:strings.Index(kind, "  matchConstraints")]+kind[strings.Index(kind, "  variables"):], "spec.matchConstraints: Required value: a matchConstraints with at least one resource rule is required")
		refuses(kind, "")
	}
	// The author needs the right to delete the objects.
	refuses(own, "", "--as=e2e-author")
	refuses(strings.Replace(own, "resources: [configmaps]}", "resources: [secrets]}", 1), "the author of the policy 'e2e-author' has no permission to delete", "--as=e2e-author")
	refuses(strings.Replace(own, `apiGroups: ["", apps], apiVersions: ["*"], resources: [configmaps]}`, `apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}`, 1), "has no permission to delete", "--as=e2e-author")
}

func deletingPolicies(t *testing.T, r *devcluster.Replica) {
	must(t, batch("small", "e2e-del", "everywhere", "5")+batch("large", "e2e-del", "everywhere", "50")+batch("excluded", "e2e-del", "everywhere", "50")+
		batch("large", "e2e-del-other", "everywhere", "50")+batch("other", "e2e-del", "other", "50"), "apply", "-f", "-")
	cluster.Apply(t, deleting("DeletingPolicy", "everywhere", ""))
	statusSays(t, "true True Succeeded Policy is ready for deletion.", "RBACPermissionsGranted", "deletingpolicy", "everywhere")
	if got := left(t, "e2e-del", "batch=everywhere"); got != "excluded large small" {
		t.Errorf("a policy that is not due has left %s", got)
	}
	began := time.Now().Add(-2 * time.Second)
	runNow(t, "deletingpolicy", "everywhere")
	statusSays(t, "true True Succeeded deleted 2 objects", "Ready", "deletingpolicy", "everywhere")
	statusSays(t, "true True Succeeded Policy is ready for deletion.", "RBACPermissionsGranted", "deletingpolicy", "everywhere")
	last := must(t, "", "get", "deletingpolicy", "everywhere", "-o", "jsonpath={.status.lastExecutionTime}")
	if at, err := time.Parse(time.RFC3339, last); err != nil || at.Before(began) {
		t.Errorf("the last run was %q", last)
	}
	if got := left(t, "e2e-del", "batch") + "|" + left(t, "e2e-del-other", "batch"); got != "excluded other small|" {
		t.Errorf("left are %s", got)
	}
	for _, namespace := range []string{"e2e-del", "e2e-del-other"} {
		hasEvent(t, "default", "DeletingPolicy/everywhere ConfigMap kyverno-cleanup Normal PolicyApplied Resource Cleaned Up: successfully deleted the target resource ConfigMap/"+namespace+"/large")
	}
	const series = `kyverno_deleting_controller_deletedobjects_total{deletion_propagation="Background",otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",policy_name="everywhere",policy_namespace="-",policy_type="DeletingPolicy",resource="configmaps",resource_namespace="e2e-del"} 1`
	if !strings.Contains(suite.Metrics(t, r.MetricsAddr), series) {
		t.Error("the metric does not count the deletion")
	}

	// A namespaceSelector selects by the labels of namespaces.
	must(t, batch("large", "e2e-del", "selected", "50")+batch("large", "e2e-del-other", "selected", "50"), "apply", "-f", "-")
	cluster.Apply(t, strings.Replace(deleting("DeletingPolicy", "selected", ""), "    objectSelector", "    namespaceSelector: {matchLabels: {clean: \"yes\"}}\n    objectSelector", 1))
	runNow(t, "deletingpolicy", "selected")
	statusSays(t, "deleted 1 object", "Ready", "deletingpolicy", "selected")
	if got := left(t, "e2e-del", "batch=selected") + "|" + left(t, "e2e-del-other", "batch=selected"); got != "|large" {
		t.Errorf("left are %s", got)
	}
}

// A namespaced policy deletes objects in its own namespace. An object whose evaluation fails stays, and the run is repeated.
func deletingNamespaced(t *testing.T) {
	must(t, batch("large", "e2e-del", "own", "50")+batch("large", "e2e-del-other", "own", "50")+batch("odd", "e2e-del", "own", "much"), "apply", "-f", "-")
	cluster.Apply(t, deleting("NamespacedDeletingPolicy", "own", ", namespace: e2e-del"))
	runNow(t, "namespaceddeletingpolicy", "own", "-n", "e2e-del")
	statusSays(t, "false False Failed ConfigMap/e2e-del/odd: ", "Ready", "namespaceddeletingpolicy", "own", "-n", "e2e-del")
	hasEvent(t, "e2e-del", "NamespacedDeletingPolicy/own ConfigMap kyverno-cleanup Warning PolicyError None: failed to delete the target resource ConfigMap/e2e-del/odd: ")
	if got := left(t, "e2e-del", "batch=own") + "|" + left(t, "e2e-del-other", "batch=own"); got != "odd|large" {
		t.Errorf("left are %s", got)
	}
	must(t, "", "label", "configmap", "odd", "-n", "e2e-del", "batch-")
	statusSays(t, "true True Succeeded deleted 0 objects", "Ready", "namespaceddeletingpolicy", "own", "-n", "e2e-del")
}

// A policy for kinds that the controller may not delete is valid, reports the missing right, and deletes nothing.
func deletingRights(t *testing.T) {
	must(t, "", "create", "secret", "generic", "large", "-n", "e2e-del")
	must(t, "", "label", "secret", "large", "-n", "e2e-del", "batch=secrets")
	cluster.Apply(t, strings.Replace(deleting("DeletingPolicy", "secrets", ""), "resources: [configmaps]}", "resources: [secrets]}", 1))
	const text = "false False Failed Policy is not ready for deletion, missing permissions: "
	statusSays(t, text, "RBACPermissionsGranted", "deletingpolicy", "secrets")
	statusSays(t, "delete /*, Resource=secrets: ", "RBACPermissionsGranted", "deletingpolicy", "secrets")
	runNow(t, "deletingpolicy", "secrets")
	statusSays(t, "deleted 0 objects; list secrets: ", "Ready", "deletingpolicy", "secrets")
	hasEvent(t, "default", "DeletingPolicy/secrets  kyverno-cleanup Warning PolicyError None: failed to delete: list secrets: ")
	must(t, "", "get", "secret", "large", "-n", "e2e-del")
}

// A policy with a schedule with seconds is due at once.
func deletingSchedule(t *testing.T) {
	must(t, batch("large", "e2e-del", "soon", "50"), "apply", "-f", "-")
	cluster.Apply(t, strings.Replace(deleting("DeletingPolicy", "soon", ""), onceAYear, "*/2 * * * * * *", 1))
	eventually(t, func() error {
		if got := left(t, "e2e-del", "batch=soon"); got != "" {
			return errors.New("left are " + got)
		}
		return nil
	})
}

// previews checks the list that the command line prints.
func previews(t *testing.T, want string, args ...string) {
	t.Helper()
	var out, warnings bytes.Buffer
	command := cli.NewRoot()
	command.SetArgs(append([]string{"cleanup", "preview", "--kubeconfig", cluster.Kubeconfig}, args...))
	command.SetOut(&out)
	command.SetErr(&warnings)
	if err := command.Execute(); err != nil || out.String() != want {
		t.Errorf("cleanup preview %s prints %q, %v; %s", strings.Join(args, " "), out.String(), err, warnings.String())
	}
}

// keeps returns an exception from a policy for the objects of a name.
func keeps(namespace, kind, policy, object string) string {
	return fmt.Sprintf(`
apiVersion: policies.kyverno.io/v1
kind: PolicyException
metadata: {name: keeps-%s, namespace: %s}
spec:
  policyRefs: [{kind: %s, name: %s}]
  matchConditions: [{name: that, expression: "object.metadata.name == '%s'"}]
`, object, namespace, kind, policy, object)
}

// An exception in the configured namespace protects its objects from cluster-wide and namespaced policies until it is deleted.
func deletingExceptions(t *testing.T) {
	for _, c := range []struct {
		kind, resource, more string
		flags                []string
	}{
		{"DeletingPolicy", "deletingpolicy", "", nil},
		{"NamespacedDeletingPolicy", "namespaceddeletingpolicy", ", namespace: e2e-del", []string{"-n", "e2e-del"}},
	} {
		name := "kept-" + strings.ToLower(c.kind)
		must(t, batch("kept", "e2e-del", name, "50")+batch("other", "e2e-del", name, "50"), "apply", "-f", "-")
		manifest := deleting(c.kind, name, c.more+`, annotations: {ephor.dev/cleanup-preview: "true"}`)
		cluster.Apply(t, strings.Replace(manifest, onceAYear, "*/2 * * * * * *", 1))
		statusSays(t, "true True Preview would delete 2 objects", "Ready", c.resource, name, c.flags...)
		cluster.Apply(t, keeps(exempting, c.kind, name, "kept")+"---"+keeps("e2e-del", c.kind, name, "other"))
		statusSays(t, "true True Preview would delete 1 object: ConfigMap/e2e-del/other", "Ready", c.resource, name, c.flags...)
		previews(t, "ConfigMap e2e-del/other\n1 of 2 objects would be deleted\n", append([]string{name, "--exception-namespace", exempting}, c.flags...)...)
		must(t, "", append([]string{"annotate", c.resource, name, "ephor.dev/cleanup-preview-"}, c.flags...)...)
		statusSays(t, "true True Succeeded deleted 0 objects", "Ready", c.resource, name, c.flags...) // by the run after the one that deletes
		if got := left(t, "e2e-del", "batch="+name); got != "kept" {
			t.Errorf("%s: left are %s", c.kind, got)
		}
		must(t, "", "delete", celExceptions, "keeps-kept", "-n", exempting)
		eventually(t, func() error {
			if got := left(t, "e2e-del", "batch="+name); got != "" {
				return errors.New("left are " + got)
			}
			return nil
		})
		must(t, "", "delete", celExceptions, "keeps-other", "-n", "e2e-del")
		must(t, "", append([]string{"delete", c.resource, name}, c.flags...)...)
	}
}

// A policy with the preview annotation only lists objects, and so does the command line.
func deletingPreview(t *testing.T) {
	must(t, batch("one", "e2e-del", "listed", "50")+batch("two", "e2e-del-other", "listed", "50"), "apply", "-f", "-")
	cluster.Apply(t, deleting("DeletingPolicy", "listed", `, annotations: {ephor.dev/cleanup-preview: "true"}`))
	runNow(t, "deletingpolicy", "listed")
	const text = "would delete 2 objects: ConfigMap/e2e-del-other/two, ConfigMap/e2e-del/one"
	statusSays(t, "true True Preview "+text, "Ready", "deletingpolicy", "listed")
	hasEvent(t, "default", "DeletingPolicy/listed  kyverno-cleanup Normal DeletionPreview None: "+text)
	previews(t, "ConfigMap e2e-del-other/two\nConfigMap e2e-del/one\n2 of 2 objects would be deleted\n", "dpol/listed")
	if got := left(t, "e2e-del", "batch=listed") + "|" + left(t, "e2e-del-other", "batch=listed"); got != "one|two" {
		t.Errorf("left are %s", got)
	}
}

// A run that would delete more objects than the limit deletes nothing.
func deletingLimit(t *testing.T) {
	must(t, batch("a", "e2e-del", "limited", "50")+batch("b", "e2e-del", "limited", "50")+batch("c", "e2e-del", "limited", "50"), "apply", "-f", "-")
	cluster.Apply(t, deleting("DeletingPolicy", "limited", ""))
	runNow(t, "deletingpolicy", "limited")
	const text = "nothing was deleted: the run would delete 3 objects, more than --maxDeletionsPerRun=2"
	statusSays(t, "false False LimitExceeded "+text, "Ready", "deletingpolicy", "limited")
	hasEvent(t, "default", "DeletingPolicy/limited  kyverno-cleanup Warning DeletionLimitExceeded None: "+text)
	if got := left(t, "e2e-del", "batch=limited"); got != "a b c" {
		t.Errorf("left are %s", got)
	}
}
