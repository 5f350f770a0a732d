package cleanup

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
)

// claims accepts each claim.
type claims struct{ client.Client }

func (claims) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return nil
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// An exception keeps the objects that it selects, and all objects if it cannot be evaluated. A run starts again if an exception changes.
func TestExceptionsKeepObjects(t *testing.T) {
	deleting := map[string]any{
		"apiVersion": "policies.kyverno.io/v1", "kind": "DeletingPolicy", "metadata": map[string]any{"name": "p", "uid": "u"},
		"spec": map[string]any{"schedule": "0 * * * *", "matchConstraints": map[string]any{"resourceRules": []any{
			map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"*"}, "resources": []any{"configmaps"}},
		}}},
	}
	exception := func(spec map[string]any) *policy.Exception {
		spec["policyRefs"] = []any{map[string]any{"kind": "DeletingPolicy", "name": "p"}}
		e, diags := compile.OneException(compile.Object{Value: map[string]any{
			"apiVersion": "policies.kyverno.io/v1", "kind": "PolicyException", "metadata": map[string]any{"name": "x", "namespace": "n"}, "spec": spec,
		}})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		return e
	}
	conditions := func(expression string) map[string]any {
		return map[string]any{"matchConditions": []any{map[string]any{"name": "c", "expression": expression}}}
	}
	isA := exception(conditions("object.metadata.name == 'a'"))
	withValues := conditions("object.metadata.name == 'a'")
	withValues["allowedValues"] = []any{"v"}
	for name, c := range map[string]struct {
		before, during *policy.Exception
		left           string // after the run
		stale          bool
		failed         string
	}{
		"none":                             {left: ""},
		"one object":                       {before: isA, left: "a"},
		"with values":                      {before: exception(withValues), left: "a"},
		"all objects":                      {before: exception(map[string]any{}), left: "a b"},
		"an error of its conditions":       {before: exception(conditions("object.data.missing == 'x'")), left: "a b", failed: "no such key: data"},
		"a mistake":                        {before: isA.Unusable(errors.New("unreadable")), left: "a b", failed: "the exception n/x cannot be used: unreadable"},
		"one that is created during a run": {during: isA, left: "b", stale: true},
		"one from an unrelated policy":     {during: &policy.Exception{Rules: []policy.ExceptionRules{{Policy: "q"}}}, left: ""},
	} {
		t.Run(name, func(t *testing.T) {
			programs := catalog.New()
			program, diags := compile.One(compile.Object{Value: deleting})
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			programs.Set(program)
			if c.before != nil {
				programs.SetException(c.before)
			}
			again, _ := compile.One(compile.Object{Value: deleting})
			objects := fake.NewSimpleDynamicClient(runtime.NewScheme(), configMap("a"), configMap("b"))
			objects.PrependReactor("delete", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				programs.Set(again) // the claim changes the policy
				if c.during != nil {
					programs.SetException(c.during)
				}
				return false, nil, nil
			})
			now := at("2026-01-31T12:00:10Z")
			ctl, _ := newController(&now)
			ctl.Client = claims{}
			ctl.Current = func(p *policy.Program) *policy.Program { return programs.Snapshot().Get(p.Identity()) }
			ctl.Executor = &Executor{
				Resources: discovery.List{{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}}, Objects: objects,
				NamespaceLabels: func(context.Context, string) (map[string]string, error) { return nil, nil },
				Settings:        settings.Defaults, Log: slog.New(slog.DiscardHandler),
			}
			u := &unstructured.Unstructured{Object: deleting}
			e := &policyState{object: u, of: runOf(u), program: program, last: now.Add(-time.Hour)}
			out := ctl.run(t.Context(), e, u)
			list, err := objects.Resource(configMaps).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, item := range list.Items {
				left = append(left, item.GetName())
			}
			if got := strings.Join(left, " "); got != c.left || out.stale != c.stale {
				t.Errorf("left are %q, want %q; %+v", got, c.left, out)
			}
			switch {
			case c.failed == "" && out.failed != nil, c.failed != "" && (out.failed == nil || !strings.Contains(out.failed.Error(), c.failed)):
				t.Errorf("it failed with %v, want %q", out.failed, c.failed)
			}
		})
	}
}

func configMap(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "n", "uid": name, "resourceVersion": "1"},
	}}
}

// An object that is being deleted already is not deleted again.
func TestObjectsThatAreBeingDeleted(t *testing.T) {
	program, diags := compile.One(compile.Object{Value: map[string]any{
		"apiVersion": "policies.kyverno.io/v1", "kind": "DeletingPolicy", "metadata": map[string]any{"name": "p", "uid": "u"},
		"spec": map[string]any{"schedule": "0 * * * *", "matchConstraints": map[string]any{"resourceRules": []any{
			map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"*"}, "resources": []any{"configmaps"}},
		}}},
	}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	e := &Executor{NamespaceLabels: func(context.Context, string) (map[string]string, error) { return nil, nil }, Settings: settings.Defaults, Log: slog.New(slog.DiscardHandler)}
	there, going := configMap("a"), configMap("b")
	now := metav1.Now()
	going.SetDeletionTimestamp(&now)
	var plan Plan
	if !e.evaluate(t.Context(), program, configMaps, there, &plan) || e.evaluate(t.Context(), program, configMaps, going, &plan) || len(plan.Delete) != 1 {
		t.Errorf("%+v", plan)
	}
}
