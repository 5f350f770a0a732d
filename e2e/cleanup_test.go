package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/cli"
	"ephor.invalid/ephor/internal/devcluster"
)

// cleanupObjects defines a custom kind, and the rights to delete its objects, since the chart grants none.
const cleanupObjects = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: trinkets.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Trinket, listKind: TrinketList, plural: trinkets, singular: trinket}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cleanup-rights, labels: {rbac.kyverno.io/aggregate-to-cleanup-controller: "true"}}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [list, watch, delete]}
- {apiGroups: [example.com], resources: [trinkets], verbs: [list, watch, delete]}
---
apiVersion: v1
kind: Namespace
metadata: {name: e2e-cleanup}
---
apiVersion: v1
kind: Namespace
metadata: {name: e2e-cleanup-other}
`

// startCleanup starts a cleanup controller, and stops it when f returns.
func startCleanup(t *testing.T, f func(*devcluster.Replica), args ...string) {
	t.Helper()
	r, err := cluster.Ephor.Start(t.Context(), devcluster.Cleanup, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Stop(suite.Grace()); err != nil {
			t.Errorf("%v\n%s", err, r.Tail(20))
		}
	}()
	// Both webhook configurations exist, and the server answers.
	eventually(t, func() error {
		if _, err := kubectl(t, "", "get", "validatingwebhookconfiguration", "kyverno-cleanup-validating-webhook-cfg", "kyverno-ttl-validating-webhook-cfg"); err != nil {
			return err
		}
		_, err := kubectl(t, cleanupPolicy("mistaken", "often", "ConfigMap", ""), "create", "-f", "-")
		if got, ok := refused(err); !ok || !strings.Contains(got, "schedule spec in the cleanupPolicy is not in proper cron format") {
			return fmt.Errorf("a wrong schedule: %v", err)
		}
		return nil
	})
	f(r)
}

// cleanupPolicy returns a policy whose schedule is never due during the test; more contains further fields of its metadata.
func cleanupPolicy(name, schedule, kind, more string) string {
	return fmt.Sprintf(`{"apiVersion":"kyverno.io/v2","kind":"ClusterCleanupPolicy","metadata":{"name":%q%s},"spec":{"schedule":%q,"deletionPropagationPolicy":"Background",
"match":{"any":[{"resources":{"kinds":[%q],"selector":{"matchLabels":{"batch":%q}}}}]},
"context":[{"name":"limit","variable":{"value":10}}],
"conditions":{"all":[{"key":"{{ target.data.size }}","operator":"GreaterThan","value":"{{ limit }}"}]}}}`, name, more, schedule, kind, name)
}

const onceAYear = "0 0 1 1 *"

// runPolicy creates a policy that is due at once, because its status reports a last run long ago.
func runPolicy(t *testing.T, policy, kind, name string, args ...string) {
	t.Helper()
	eventually(t, func() error { // granted rights take effect after a moment
		_, err := kubectl(t, policy, "apply", "-f", "-")
		return err
	})
	t.Cleanup(func() {
		_, _ = cluster.Kubectl(context.Background(), nil, append([]string{"delete", "--ignore-not-found", kind, name}, args...)...)
	})
	must(t, "", append([]string{"patch", kind, name, "--subresource=status", "--type=merge", "-p", `{"status":{"lastExecutionTime":"2020-01-01T00:00:00Z"}}`}, args...)...)
}

// runs waits until the condition Ready of a policy has the reason, and returns the policy's status.
func runs(t *testing.T, reason, kind, name string, args ...string) (message, last string) {
	t.Helper()
	eventually(t, func() error {
		o, err := object(t, append([]string{kind, name}, args...)...)
		if err != nil {
			return err
		}
		if got := at(o, "status", "conditions", 0, "reason"); got != reason {
			return fmt.Errorf("status %v", at(o, "status"))
		}
		message, _ = at(o, "status", "conditions", 0, "message").(string)
		last, _ = at(o, "status", "lastExecutionTime").(string)
		return nil
	})
	return message, last
}

func sized(name, namespace, batch, size string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s, labels: {batch: %s}}\ndata: {size: %q}\n---\n", name, namespace, batch, size)
}

// names returns the names of the ConfigMaps in a namespace with a label.
func names(t *testing.T, namespace, selector string) string {
	t.Helper()
	return must(t, "", "get", "configmaps", "-n", namespace, "-l", selector, "-o", "jsonpath={.items[*].metadata.name}")
}

func hasEvent(t *testing.T, namespace, reason, note string) {
	t.Helper()
	eventually(t, func() error {
		text, err := kubectl(t, "", "get", "events.events.k8s.io", "-n", namespace, "-o", `jsonpath={range .items[?(@.reason=="`+reason+`")]}{.reportingController} {.note}{"\n"}{end}`)
		if err == nil && !strings.Contains(text, "kyverno-cleanup "+note) {
			err = fmt.Errorf("no event %s %q in\n%s", reason, note, text)
		}
		return err
	})
}

// Cleanup policies and TTL labels delete the selected objects only, list them in a preview, and stop at the limit.
func TestCleanup(t *testing.T) {
	must(t, cleanupObjects, "delete", "--ignore-not-found", "-f", "-") // an earlier run of this test does not wait for it
	must(t, cleanupObjects, "apply", "-f", "-")
	t.Cleanup(func() {
		_, _ = cluster.Kubectl(context.Background(), nil, "delete", "validatingwebhookconfiguration", "kyverno-cleanup-validating-webhook-cfg", "kyverno-ttl-validating-webhook-cfg")
		_, _ = cluster.Kubectl(context.Background(), []byte(cleanupObjects), "delete", "--wait=false", "-f", "-")
	})
	startCleanup(t, func(r *devcluster.Replica) {
		t.Run("rights", cleanupRights)
		t.Run("policies", func(t *testing.T) { cleanupPolicies(t, r) })
		t.Run("preview", cleanupPreview)
		t.Run("ttl", func(t *testing.T) { ttlFormats(t, r) })
		t.Run("propagation of ttl", ttlPropagation)
		t.Run("propagation of policies", policyPropagation)
	}, "--ttlReconciliationInterval=1s")
	startCleanup(t, func(r *devcluster.Replica) {
		t.Run("limit of policies", func(t *testing.T) { cleanupLimit(t, r) })
		t.Run("limit of ttl", func(t *testing.T) { ttlLimit(t, r) })
	}, "--ttlReconciliationInterval=1s", "--maxDeletionsPerRun=2")
}

// A policy for kinds that the controller may not delete is rejected.
func cleanupRights(t *testing.T) {
	_, err := kubectl(t, cleanupPolicy("secrets", onceAYear, "Secret", ""), "create", "-f", "-")
	if got, ok := refused(err); !ok || !strings.Contains(got, "cleanup controller has no permission to delete kind Secret") {
		t.Errorf("a policy over Secrets: %v", err)
	}
}

func cleanupPolicies(t *testing.T, r *devcluster.Replica) {
	must(t, sized("small", "e2e-cleanup", "everywhere", "5")+sized("large", "e2e-cleanup", "everywhere", "50")+
		sized("large", "e2e-cleanup-other", "everywhere", "50")+sized("unlabelled", "e2e-cleanup", "other", "50"), "apply", "-f", "-")
	began := time.Now().Add(-2 * time.Second)
	runPolicy(t, cleanupPolicy("everywhere", onceAYear, "ConfigMap", ""), "clustercleanuppolicy", "everywhere")
	message, last := runs(t, "Succeeded", "clustercleanuppolicy", "everywhere")
	if at, err := time.Parse(time.RFC3339, last); err != nil || at.Before(began) || message != "deleted 2 objects" {
		t.Errorf("status %q, last run %q", message, last)
	}
	if got := names(t, "e2e-cleanup", "batch") + "|" + names(t, "e2e-cleanup-other", "batch"); got != "small unlabelled|" {
		t.Errorf("left are %s", got)
	}
	claim := must(t, "", "get", "clustercleanuppolicy", "everywhere", "-o", `jsonpath={.metadata.annotations.ephor\.dev/cleanup-run}`)
	if due, who, _ := strings.Cut(claim, " "); who != r.Name || due != "2021-01-01T00:00:00Z" {
		t.Errorf("the run is claimed by %q", claim)
	}
	if page := suite.Metrics(t, r.MetricsAddr); value(page, `kyverno_cleanup_controller_deletedobjects_total{deletion_propagation="Background",otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",policy_name="everywhere",policy_namespace="-",policy_type="ClusterCleanupPolicy",resource_kind="ConfigMap",resource_namespace="e2e-cleanup"}`) != 1 {
		t.Error("the metric does not count the deletion")
	}

	// A namespaced policy deletes objects in its namespace only. An object whose evaluation fails is reported and not deleted.
	own := strings.NewReplacer("ClusterCleanupPolicy", "CleanupPolicy", `"name":"own"`, `"name":"own","namespace":"e2e-cleanup"`).Replace(cleanupPolicy("own", onceAYear, "ConfigMap", ""))
	must(t, sized("large", "e2e-cleanup", "own", "50")+sized("large", "e2e-cleanup-other", "own", "50"), "apply", "-f", "-")
	must(t, "", "create", "configmap", "sizeless", "-n", "e2e-cleanup")
	must(t, "", "label", "configmap", "sizeless", "-n", "e2e-cleanup", "batch=own")
	runPolicy(t, own, "cleanuppolicy", "own", "-n", "e2e-cleanup")
	message, last = runs(t, "Failed", "cleanuppolicy", "own", "-n", "e2e-cleanup")
	if !strings.Contains(message, "ConfigMap/e2e-cleanup/sizeless: failed to check conditions") || last != "2020-01-01T00:00:00Z" {
		t.Errorf("status %q, last run %q", message, last)
	}
	hasEvent(t, "e2e-cleanup", "PolicyError", "failed to clean up the target resource ConfigMap/e2e-cleanup/sizeless: ")
	if page := suite.Metrics(t, r.MetricsAddr); !regexp.MustCompile(`kyverno_cleanup_controller_errors_total\{.*policy_name="own",policy_namespace="e2e-cleanup",policy_type="CleanupPolicy",resource_kind="ConfigMap",resource_namespace="e2e-cleanup"\} [1-9]`).MatchString(page) {
		t.Error("no metric counts the failure")
	}
	if got := names(t, "e2e-cleanup", "batch=own") + "|" + names(t, "e2e-cleanup-other", "batch=own"); got != "sizeless|large" {
		t.Errorf("left are %s", got)
	}
	must(t, "", "label", "configmap", "sizeless", "-n", "e2e-cleanup", "batch-") // failed objects are retried
	if message, _ = runs(t, "Succeeded", "cleanuppolicy", "own", "-n", "e2e-cleanup"); message != "deleted 0 objects" {
		t.Errorf("status %q", message)
	}
}

// A policy with the preview annotation only lists objects, and so does the command line.
func cleanupPreview(t *testing.T) {
	must(t, sized("one", "e2e-cleanup", "listed", "50")+sized("two", "e2e-cleanup-other", "listed", "50"), "apply", "-f", "-")
	runPolicy(t, cleanupPolicy("listed", onceAYear, "ConfigMap", `,"annotations":{"ephor.dev/cleanup-preview":"true"}`), "clustercleanuppolicy", "listed")
	const text = "would delete 2 objects: ConfigMap/e2e-cleanup-other/two, ConfigMap/e2e-cleanup/one"
	if message, last := runs(t, "Preview", "clustercleanuppolicy", "listed"); message != text || last == "2020-01-01T00:00:00Z" {
		t.Errorf("status %q, last run %q", message, last)
	}
	hasEvent(t, "default", "DeletionPreview", text)
	preview := func(args ...string) string {
		var out bytes.Buffer
		command := cli.NewRoot()
		command.SetArgs(append([]string{"cleanup", "preview", "--kubeconfig", cluster.Kubeconfig}, args...))
		command.SetOut(&out)
		command.SetErr(io.Discard)
		if err := command.Execute(); err != nil {
			t.Error(err)
		}
		return out.String()
	}
	if got := preview("listed"); !strings.HasPrefix(got, "ConfigMap e2e-cleanup-other/two\nConfigMap e2e-cleanup/one\n2 of ") || !strings.HasSuffix(got, " objects would be deleted\n") {
		t.Errorf("cleanup preview prints\n%s", got)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(preview("listed", "-o", "json")), &doc); err != nil || at(doc, "delete", 1, "name") != "one" || at(doc, "delete", 0, "deletionPropagationPolicy") != "Background" {
		t.Errorf("%v %v", doc, err)
	}
	if got := names(t, "e2e-cleanup", "batch=listed") + "|" + names(t, "e2e-cleanup-other", "batch=listed"); got != "one|two" {
		t.Errorf("left are %s", got)
	}
}

// Each format of the TTL label works, on objects of a namespace and on cluster-scoped objects of a custom kind.
func ttlFormats(t *testing.T, r *devcluster.Replica) {
	soon := time.Now().Add(4 * time.Second).UTC().Format("2006-01-02T150405Z")
	var manifests strings.Builder
	for i, value := range []string{"1s", "0.03m", "1s500ms", "2023-07-19T120000Z", soon, "2023-07-19"} {
		fmt.Fprintf(&manifests, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: due-%d, namespace: e2e-cleanup, labels: {cleanup.kyverno.io/ttl: %q}}\n---\n", i, value)
		fmt.Fprintf(&manifests, "apiVersion: example.com/v1\nkind: Trinket\nmetadata: {name: due-%d, labels: {cleanup.kyverno.io/ttl: %q}}\n---\n", i, value)
	}
	stay := []string{"1h", "1h30m", "3d", "2w", "2099-01-31T150405Z", "2099-01-31", "10ay"}
	for i, value := range stay {
		fmt.Fprintf(&manifests, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stay-%d, namespace: e2e-cleanup, labels: {cleanup.kyverno.io/ttl: %q}}\n---\n", i, value)
	}
	must(t, manifests.String(), "create", "-f", "-")
	const want = "stay-0 stay-1 stay-2 stay-3 stay-4 stay-5 stay-6"
	left := func() error {
		got := names(t, "e2e-cleanup", "cleanup.kyverno.io/ttl")
		if trinkets := must(t, "", "get", "trinkets", "-o", "name"); got != want || trinkets != "" {
			return fmt.Errorf("left are %s, %s", got, trinkets)
		}
		return nil
	}
	eventually(t, left)
	// A changed label takes effect at once.
	must(t, "", "label", "--overwrite", "configmap", "stay-0", "-n", "e2e-cleanup", "cleanup.kyverno.io/ttl=2023-07-19")
	eventually(t, func() error {
		if got := names(t, "e2e-cleanup", "cleanup.kyverno.io/ttl"); got != strings.TrimPrefix(want, "stay-0 ") {
			return fmt.Errorf("left are %s", got)
		}
		return nil
	})
	page := suite.Metrics(t, r.MetricsAddr)
	if value(page, `kyverno_ttl_controller_deletedobjects_total{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",resource_group="",resource_namespace="e2e-cleanup",resource_resource="configmaps",resource_version="v1"}`) != 7 ||
		value(page, `kyverno_ttl_controller_info{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",resource_group="example.com",resource_resource="trinkets",resource_version="v1"}`) != 1 ||
		strings.Contains(page, `resource_resource="secrets"`) {
		t.Error("the metrics do not tell what was deleted and what is watched")
	}
	must(t, "", "delete", "configmap", "-n", "e2e-cleanup", "-l", "cleanup.kyverno.io/ttl")
}

// A run that would delete more objects than the limit deletes nothing.
func cleanupLimit(t *testing.T, r *devcluster.Replica) {
	must(t, sized("a", "e2e-cleanup", "limited", "50")+sized("b", "e2e-cleanup", "limited", "50")+sized("c", "e2e-cleanup", "limited", "50"), "apply", "-f", "-")
	runPolicy(t, cleanupPolicy("limited", onceAYear, "ConfigMap", ""), "clustercleanuppolicy", "limited")
	const text = "nothing was deleted: the run would delete 3 objects, more than --maxDeletionsPerRun=2"
	if message, last := runs(t, "LimitExceeded", "clustercleanuppolicy", "limited"); message != text || last != "2020-01-01T00:00:00Z" {
		t.Errorf("status %q, last run %q", message, last)
	}
	hasEvent(t, "default", "DeletionLimitExceeded", text)
	if got := names(t, "e2e-cleanup", "batch=limited"); got != "a b c" {
		t.Errorf("left are %s", got)
	}
	if value(suite.Metrics(t, r.MetricsAddr), `ephor_cleanup_runs_stopped_total{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",policy_name="limited",policy_namespace="-",policy_type="ClusterCleanupPolicy"}`) < 1 {
		t.Error("no metric tells of the run that was stopped")
	}
}

func ttlLimit(t *testing.T, r *devcluster.Replica) {
	// All TTLs end at the same moment, some time after the last object is created, so that no round sees only some of them.
	end := time.Now().UTC().Add(devcluster.Patience() / 12).Format("2006-01-02T150405Z")
	var manifests strings.Builder
	for i := range 3 {
		fmt.Fprintf(&manifests, "apiVersion: example.com/v1\nkind: Trinket\nmetadata: {name: limited-%d, labels: {cleanup.kyverno.io/ttl: %q}}\n---\n", i, end)
	}
	must(t, manifests.String(), "create", "-f", "-")
	// The event may be that of an earlier run of this test, so it tells nothing of the time.
	eventually(t, func() error {
		if value(suite.Metrics(t, r.MetricsAddr), `ephor_ttl_rounds_stopped_total{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",resource_group="example.com",resource_resource="trinkets",resource_version="v1"}`) < 1 {
			return errors.New("no metric tells of the round that was stopped")
		}
		return nil
	})
	hasEvent(t, "default", "DeletionLimitExceeded", "nothing was deleted: the TTL of 3 objects of trinkets.example.com is over, more than --maxDeletionsPerRun=2")
	if got := must(t, "", "get", "trinkets", "-o", "jsonpath={.items[*].metadata.name}"); got != "limited-0 limited-1 limited-2" {
		t.Errorf("left are %s", got)
	}
	must(t, "", "label", "trinket", "limited-1", "cleanup.kyverno.io/ttl-")
	eventually(t, func() error {
		if got := must(t, "", "get", "trinkets", "-o", "jsonpath={.items[*].metadata.name}"); got != "limited-1" {
			return fmt.Errorf("left are %s", got)
		}
		return nil
	})
}
