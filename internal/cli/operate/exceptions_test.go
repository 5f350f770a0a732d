package operate

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/policy"
)

// A preview uses the exceptions of the configured namespace. It ignores expired exceptions, but not those with a mistake.
func TestPreviewExceptions(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	exception := func(namespace, name, policy string, more map[string]any) runtime.Object {
		spec := map[string]any{"policyRefs": []any{map[string]any{"kind": "NamespacedDeletingPolicy", "name": policy}}}
		for k, v := range more {
			spec[k] = v
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "policies.kyverno.io/v1beta1", "kind": "PolicyException", "metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec,
		}}
	}
	lists := map[schema.GroupVersionResource]string{{Group: "policies.kyverno.io", Version: "v1beta1", Resource: "policyexceptions"}: "PolicyExceptionList"}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists,
		exception("a", "counts", "p", nil), exception("b", "elsewhere", "p", nil), exception("a", "unrelated", "q", nil),
		exception("a", "expired", "p", map[string]any{"expiresAt": "2026-01-31T11:59:59Z"}), exception("a", "later", "p", map[string]any{"expiresAt": "2027-01-01T00:00:00Z"}),
		exception("a", "mistake", "p", map[string]any{"matchConditions": []any{map[string]any{"name": "c", "expression": "nothing.there"}}}))
	program, diags := compile.One(compile.Object{Value: map[string]any{
		"apiVersion": "policies.kyverno.io/v1", "kind": "NamespacedDeletingPolicy", "metadata": map[string]any{"name": "p", "namespace": "c"},
		"spec": map[string]any{"schedule": "@daily", "matchConstraints": map[string]any{"resourceRules": []any{
			map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"*"}, "resources": []any{"configmaps"}},
		}}},
	}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	for namespace, want := range map[string]string{"a": "a/counts a/later a/mistake!", "b": "b/elsewhere", "c": "", "*": "a/counts a/later a/mistake! b/elsewhere"} {
		p, err := withExceptions(t.Context(), client, program, namespace, now)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range p.Rules[0].Exceptions {
			text := e.Key()
			if e.Match != nil {
				if _, err := e.Match(t.Context(), &policy.Request{}); err != nil {
					text += "!"
				}
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", namespace, got, want)
		}
	}
	for namespace, warns := range map[string]bool{"": true, "a": false} {
		var warnings bytes.Buffer
		got, err := (&preview{exceptions: namespace, warnings: &warnings}).excepted(t.Context(), client, program)
		if err != nil || (got == program) != warns || strings.HasPrefix(warnings.String(), "Warning: exceptions name the policy") != warns {
			t.Errorf("%q: %v, %q", namespace, err, warnings.String())
		}
	}
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no answer") })
	var warnings bytes.Buffer
	if got, err := (&preview{warnings: &warnings}).excepted(t.Context(), client, program); err != nil || got != program || !strings.Contains(warnings.String(), "no answer") {
		t.Errorf("unreadable: %v, %q", err, warnings.String())
	}
}
