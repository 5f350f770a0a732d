package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
)

const workPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: work}
spec:
  rules:
  - name: quota
    match: {any: [{resources: {kinds: [Namespace], selector: {matchLabels: {work: "yes"}}}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: quota, namespace: "{{ request.object.metadata.name }}", data: {data: {a: b}}}
  - name: mark
    match: {any: [{resources: {kinds: [Namespace], selector: {matchLabels: {work: "yes"}}}}]}
    mutate: {targets: [{apiVersion: v1, kind: ConfigMap, namespace: default, name: marked}], patchStrategicMerge: {data: {by: "{{ request.object.metadata.name }}"}}}
`

// workRights are the rights that the background controller needs for the policy.
const workRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: work-rights, labels: {rbac.kyverno.io/aggregate-to-background-controller: "true"}}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, create, update, delete]}]
`

// downstream is the object that the policy generates for a namespace.
const downstream = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: quota
  namespace: work-1
  labels:
    app.kubernetes.io/managed-by: kyverno
    generate.kyverno.io/policy-name: work
    generate.kyverno.io/policy-namespace: ""
    generate.kyverno.io/rule-name: quota
    generate.kyverno.io/trigger-group: ""
    generate.kyverno.io/trigger-version: v1
    generate.kyverno.io/trigger-kind: Namespace
    generate.kyverno.io/trigger-namespace: ""
    generate.kyverno.io/trigger-uid: %s
`

// updateRequests returns the UpdateRequests of the policy, by type and trigger.
func updateRequests(t *testing.T) map[string]kyvernov2.UpdateRequest {
	t.Helper()
	var list kyvernov2.UpdateRequestList
	if err := json.Unmarshal([]byte(must(t, "", "get", "updaterequests", "-n", "kyverno", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]kyvernov2.UpdateRequest{}
	for _, u := range list.Items {
		key := fmt.Sprintf("%s %s", u.Spec.RequestType, u.Spec.Resource.Name)
		if _, twice := out[key]; twice {
			t.Errorf("two UpdateRequests for %s", key)
		}
		out[key] = u
	}
	return out
}

// An UpdateRequest is written before the request is answered, and a repeated request raises its generation. Requests beyond the threshold
// are delayed, with a warning and an event, and written later.
func TestWorkIsWrittenBeforeTheAnswer(t *testing.T) {
	must(t, workRights, "apply", "-f", "-")
	policy := policyFile(t, workPolicy)
	eventually(t, func() error { // once the rights are aggregated
		_, err := kubectl(t, "", "apply", "--dry-run=server", "-f", policy)
		return err
	})
	applyPolicies(t, policy)
	t.Cleanup(func() {
		ctx := context.Background()
		for _, args := range [][]string{
			{"delete", "clusterrole", "work-rights"},
			{"delete", "namespaces", "-l", "work=yes", "--wait=false"},
			{"patch", "configmap", "kyverno", "-n", "kyverno", "--type=merge", "-p", `{"data":{"updateRequestThreshold":"1000"}}`},
			{"delete", "updaterequests", "-n", "kyverno", "--all"},
		} {
			if _, err := cluster.Kubectl(ctx, nil, args...); err != nil {
				t.Error(err)
			}
		}
	})
	namespace := func(name string) string {
		return "{apiVersion: v1, kind: Namespace, metadata: {name: " + name + ", labels: {work: 'yes'}}}"
	}
	must(t, namespace("work-dry"), "create", "--dry-run=server", "-f", "-")
	if got := updateRequests(t); len(got) > 0 {
		t.Errorf("a dry run asks for work: %v", got)
	}
	must(t, namespace("work-1"), "create", "-f", "-")
	got := updateRequests(t) // without waiting: it was written before the namespace was stored
	generate, mutate := got["generate work-1"], got["mutate work-1"]
	if len(got) != 2 || !strings.HasPrefix(generate.Name, "ur-") || generate.Labels["generate.kyverno.io/policy-name"] != "work" || mutate.Spec.Rule != "mark" || mutate.Labels["mutate.updaterequest.kyverno.io/trigger-name"] != "work-1" {
		t.Fatalf("%+v", got)
	}
	uid := must(t, "", "get", "namespace", "work-1", "-o", "jsonpath={.metadata.uid}")
	request := generate.Spec.Context.AdmissionRequestInfo
	if c := generate.Spec.RuleContext; len(c) != 1 || c[0].Rule != "quota" || string(c[0].Trigger.UID) != uid || !c[0].Synchronize ||
		request.Operation != "CREATE" || !strings.Contains(string(request.AdmissionRequest.Object.Raw), `"work-1"`) || generate.Spec.Context.UserInfo.UserInfo.Username == "" {
		t.Errorf("%+v", generate.Spec)
	}

	must(t, "", "label", "namespace", "work-1", "again=yes")
	got = updateRequests(t)
	if again := got["generate work-1"]; len(got) != 2 || again.Name != generate.Name || again.Generation != generate.Generation+1 || again.Spec.Context.AdmissionRequestInfo.Operation != "UPDATE" {
		t.Errorf("asked again: generation %d, %+v", again.Generation, again.Spec)
	}
	must(t, "", "label", "namespace", "work-1", "work-")
	if undo := updateRequests(t)["generate work-1"]; len(undo.Spec.RuleContext) != 1 || !undo.Spec.RuleContext[0].DeleteDownstream {
		t.Errorf("no longer a trigger: %+v", undo.Spec.RuleContext)
	}
	must(t, "", "label", "namespace", "work-1", "work=yes")

	// Another client deletes the generated object.
	must(t, fmt.Sprintf(downstream, uid), "create", "-f", "-")
	must(t, "", "delete", "configmap", "quota", "-n", "work-1")
	got = updateRequests(t)
	if again := got["generate "]; len(got) != 3 || again.Spec.Context.AdmissionRequestInfo.Operation != "DELETE" || len(again.Spec.RuleContext) != 1 || again.Spec.RuleContext[0].DeleteDownstream ||
		string(again.Spec.RuleContext[0].Trigger.UID) != uid || again.Spec.Context.AdmissionRequestInfo.AdmissionRequest.Name != "quota" {
		t.Errorf("downstream deleted: %+v", again.Spec)
	}

	must(t, "", "patch", "configmap", "kyverno", "-n", "kyverno", "--type=merge", "-p", `{"data":{"updateRequestThreshold":"2"}}`)
	next := 2
	eventually(t, func() error {
		name := fmt.Sprint("work-", next)
		next++
		out, err := cluster.Kubectl(t.Context(), []byte(namespace(name)), "create", "-f", "-", "--warnings-as-errors")
		if err == nil {
			return fmt.Errorf("no warning with %s: %s", name, out)
		}
		if !strings.Contains(err.Error(), "1 warning") && !strings.Contains(err.Error(), "2 warnings") {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	last := fmt.Sprint("work-", next-1)
	must(t, "", "get", "namespace", last) // the answer was the same
	if _, there := updateRequests(t)["generate "+last]; there {
		t.Error("more UpdateRequests than the threshold allows")
	}
	eventually(t, func() error {
		out := must(t, "", "get", "events", "-A", "-o", "jsonpath={.items[*].message}{.items[*].note}")
		if !strings.Contains(out, "its work is delayed: as many UpdateRequests as updateRequestThreshold allows (2)") {
			return fmt.Errorf("no event: %s", out)
		}
		return nil
	})
	must(t, "", "patch", "configmap", "kyverno", "-n", "kyverno", "--type=merge", "-p", `{"data":{"updateRequestThreshold":"1000"}}`)
	eventually(t, func() error {
		if got := updateRequests(t); got["generate "+last].Name == "" || got["mutate "+last].Name == "" {
			return fmt.Errorf("what waited was not written: %d UpdateRequests", len(got))
		}
		return nil
	})
}
