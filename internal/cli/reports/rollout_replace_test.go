package reports

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"ephor.invalid/ephor/internal/cli/impact"
)

const beside1 = `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: require-team}
spec:
  validationActions: [Deny]
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "has(object.metadata.labels)"}]
---
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: stamp}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels/a', value: 'b'}]"}}]
`

// trial starts a replacement with a fake client. status is what the API server says about every policy.
func trial(t *testing.T, policies string, ready *bool, existing ...runtime.Object) (*replacing, *fake.FakeDynamicClient) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "new.yaml")
	if err := os.WriteFile(file, []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	work, err := newReplacing(&replacement{pair: "require-team=" + file, days: 7})
	if err != nil {
		t.Fatal(err)
	}
	lists := map[schema.GroupVersionResource]string{}
	for _, b := range work.all {
		lists[b.gvr()] = b.kind.Kind + "List"
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, existing...)
	client.PrependReactor("get", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		get := a.(clienttesting.GetAction)
		o, err := client.Tracker().Get(get.GetResource(), get.GetNamespace(), get.GetName())
		if err != nil {
			return true, nil, err
		}
		u := o.(*unstructured.Unstructured).DeepCopy()
		return true, u, unstructured.SetNestedField(u.Object, *ready, "status", "conditionStatus", "ready")
	})
	work.client = client
	return work, client
}

func actionsOf(t *testing.T, client *fake.FakeDynamicClient, b *beside) string {
	t.Helper()
	o, err := client.Tracker().Get(b.gvr(), "", b.program.Name)
	if err != nil {
		return err.Error()
	}
	u := o.(*unstructured.Unstructured)
	actions, _, _ := unstructured.NestedSlice(u.Object, "spec", "validationActions")
	return fmt.Sprint(actions, u.GetAnnotations())
}

// The new policies audit until they are swapped; the old one is deleted only when all of them are ready.
func TestReplace(t *testing.T) {
	ready := true
	work, client := trial(t, beside1, &ready)
	ctx, out := t.Context(), &bytes.Buffer{}
	if err := work.read(ctx); err != nil {
		t.Fatal(err)
	}
	if changed, err := work.begin(ctx, out); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if got := actionsOf(t, client, work.all[0]); got != "[Audit] map[ephor.dev/beside:require-team]" {
		t.Error(got)
	}
	if got := actionsOf(t, client, work.all[1]); !strings.Contains(got, "not found") {
		t.Errorf("a policy that changes objects was created before the swap: %s", got)
	}
	if err := work.read(ctx); err != nil {
		t.Fatal(err)
	}
	if changed, err := work.begin(ctx, out); err != nil || changed {
		t.Error("a second run changes the policies", changed, err)
	}
	old := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "u", "resourceVersion": "7"}}}
	deleted := false
	err := work.exchange(ctx, out, old, func(_ context.Context, how metav1.DeleteOptions) error {
		deleted = true
		if got := actionsOf(t, client, work.all[0]); got != "[Deny] map[]" {
			t.Errorf("the old policy is deleted while the new one has %s", got)
		}
		if *how.Preconditions.UID != "u" || *how.Preconditions.ResourceVersion != "7" {
			t.Error("another policy of the name may be deleted")
		}
		return nil
	})
	if err != nil || !deleted {
		t.Error(deleted, err)
	}
	if got := actionsOf(t, client, work.all[1]); got != "[] map[]" {
		t.Error(got)
	}
	if !strings.Contains(out.String(), "ValidatingPolicy require-team runs beside require-team in Audit from now on") || !strings.Contains(out.String(), "require-team is deleted") {
		t.Error(out)
	}
}

// While a new policy is not ready, the old one stays.
func TestReplaceWaits(t *testing.T) {
	ready := false
	work, _ := trial(t, beside1, &ready)
	ctx, cancel := context.WithCancel(t.Context())
	if err := work.read(ctx); err != nil {
		t.Fatal(err)
	}
	asked := 0
	work.client.(*fake.FakeDynamicClient).PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if asked++; asked == 1 {
			cancel()
		}
		return false, nil, nil
	})
	err := work.exchange(ctx, &bytes.Buffer{}, &unstructured.Unstructured{Object: map[string]any{}}, func(context.Context, metav1.DeleteOptions) error {
		t.Error("the old policy was deleted")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "require-team is still in force, too") {
		t.Error(err)
	}
}

// A policy of the name that does not run beside the old one is not taken over, and only policies in CEL that answer requests can be swapped.
func TestReplaceRefuses(t *testing.T) {
	ready := true
	foreign := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policies.kyverno.io/v1", "kind": "ValidatingPolicy", "metadata": map[string]any{"name": "require-team"}}}
	work, client := trial(t, beside1, &ready)
	if err := client.Tracker().Create(work.all[0].gvr(), foreign, ""); err != nil {
		t.Fatal(err)
	}
	if err := work.read(t.Context()); err == nil || !strings.Contains(err.Error(), "is in the cluster already") {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: x}\nspec: {rules: [{name: a, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {message: m, pattern: {metadata: {name: a}}}}]}\n":                       "is not a policy in CEL",
		"apiVersion: policies.kyverno.io/v1\nkind: DeletingPolicy\nmetadata: {name: x}\nspec: {schedule: '@daily', matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]}}\n": "generates or deletes objects",
	} {
		file := filepath.Join(t.TempDir(), "new.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := newReplacing(&replacement{pair: "p=" + file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := newReplacing(&replacement{pair: "p"}); err == nil || !strings.Contains(err.Error(), "is not OLD=FILE") {
		t.Error(err)
	}
	o := &rolloutOptions{replace: replacement{pair: "a=b"}}
	o.decisions = impact.Recorded{}
	if err := o.args(nil, []string{"x"}); err == nil {
		t.Error("--replace with an argument")
	}
	if err := (&rolloutOptions{replace: replacement{swap: true}}).args(nil, []string{"x"}); err == nil || !slices.Contains([]string{"--swap belongs to --replace"}, err.Error()) {
		t.Error(err)
	}
}
