package scan

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// served are the resources of a small API server, the preferred versions first.
var served = resources{
	{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true},
	{Version: "v1", Resource: "pods", Subresource: "exec", Kind: "Pod", Namespaced: true},
	{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true},
	{Version: "v1", Resource: "events", Kind: "Event", Namespaced: true},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Namespaced: true},
	{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Namespaced: true},
	{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports", Kind: "PolicyReport", Namespaced: true},
}

type resources discovery.List

func (r resources) Find(t policy.Target) ([]discovery.Resource, error) {
	if t.Kind == "Broken" {
		return nil, errors.New("the group does not answer")
	}
	return discovery.List(r).Find(t)
}

func program(t *testing.T, text string) *policy.Program {
	t.Helper()
	var object map[string]any
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := value.DecodeJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	object = v.(map[string]any)
	p, diags := compile.One(compile.Object{Value: object})
	if p == nil {
		t.Fatal(diags)
	}
	return p
}

// rule returns a policy with one rule.
func rule(t *testing.T, spec, match, body string) *policy.Program {
	t.Helper()
	return program(t, "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n"+spec+
		"  rules:\n  - name: r\n    match: {any: [{"+match+"}]}\n    "+body+"\n")
}

const pattern = `validate: {pattern: {metadata: {name: "?*"}}}`

// Which rules are scanned, and on which kinds.
func TestPlan(t *testing.T) {
	pods := `resources: {kinds: [Pod]}`
	for _, c := range []struct {
		name, spec, match, body, want string
	}{
		{"validate", "", pods, pattern, "pods"},
		{"several kinds", "", `resources: {kinds: [Pod, ConfigMap]}`, pattern, "configmaps pods"},
		{"background is off", "  background: false\n", pods, pattern, ""},
		{"admission is off", "  admission: false\n", pods, pattern, "pods"},
		{"mutate", "", pods, `mutate: {patchStrategicMerge: {metadata: {labels: {a: b}}}}`, ""},
		{"users in match", "", pods + `, subjects: [{kind: User, name: me}]`, pattern, ""},
		{"roles in match", "", pods + `, clusterRoles: [me]`, pattern, ""},
		{"users in variables", "", pods, `validate: {deny: {conditions: {all: [{key: "{{request.userInfo.username}}", operator: Equals, value: me}]}}}`, ""},
		{"the operation is always CREATE", "", pods, `validate: {deny: {conditions: {all: [{key: "{{request.operation}}", operator: Equals, value: DELETE}]}}}`, "pods"},
		{"variables whose names are not known", "", pods, `validate: {message: "{{ {{ request.object.metadata.name }} }}", pattern: {metadata: {name: "?*"}}}`, "pods"},
		{"sub-resources", "", `resources: {kinds: [Pod/exec]}`, pattern, ""},
		{"operations without CREATE", "", `resources: {kinds: [Pod], operations: [DELETE]}`, pattern, ""},
		{"operations with CREATE", "", `resources: {kinds: [Pod], operations: [CREATE, UPDATE]}`, pattern, "pods"},
		{"events", "", `resources: {kinds: [Event]}`, pattern, ""},
		{"all kinds but reports and events", "", `resources: {kinds: ["*"]}`, pattern, "configmaps horizontalpodautoscalers.autoscaling pods"},
		{"one version of a resource", "", `resources: {kinds: [HorizontalPodAutoscaler]}`, pattern, "horizontalpodautoscalers.autoscaling"},
		{"a kind that is not served", "", `resources: {kinds: [Gone]}`, pattern, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, err := plan(catalog.NewStatic([]*policy.Program{rule(t, c.spec, c.match, c.body)}), served)
			var got []string
			for _, at := range slices.SortedFunc(maps.Keys(k), func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) }) {
				got = append(got, at.String())
			}
			// A rule for Pods also applies to Pod controllers, which this server does not serve.
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("%v %v, want %q", got, err, c.want)
			}
		})
	}
	if k, err := plan(catalog.NewStatic([]*policy.Program{rule(t, "", `resources: {kinds: [Broken, Pod]}`, pattern)}), served); err == nil || len(k) != 1 {
		t.Errorf("%v %v: a kind that cannot be found out must be said, and not hide the others", k, err)
	}
}

// A policy by resource is scanned only on the kinds of these resources.
func TestPlanByResource(t *testing.T) {
	at := func(group, resource, sub string, operations ...policy.Operation) policy.Target {
		return policy.Target{Group: group, Version: "*", Resource: resource, Subresource: sub, Operations: operations}
	}
	for _, c := range []struct {
		name    string
		targets []policy.Target
		want    string
	}{
		{"one", []policy.Target{at("", "pods", "")}, "pods"},
		{"all of a group", []policy.Target{at("", "*", "")}, "configmaps pods"},
		{"everything", []policy.Target{at("*", "*", "*")}, "configmaps horizontalpodautoscalers.autoscaling pods"},
		{"with its subresources", []policy.Target{at("", "pods", "*")}, "pods"},
		{"a subresource", []policy.Target{at("", "pods", "exec")}, ""},
		{"not served", []policy.Target{at("x.io", "pods", "")}, ""},
		{"deletions", []policy.Target{at("", "pods", "", policy.Delete)}, ""},
	} {
		p := &policy.Program{Name: "p", Settings: policy.Settings{Background: true}, Rules: []*policy.Rule{
			{Name: "r", Stage: policy.StageValidate, Matching: policy.Matching{Targets: c.targets}},
		}}
		k, err := plan(catalog.NewStatic([]*policy.Program{p}), served)
		var got []string
		for _, at := range slices.SortedFunc(maps.Keys(k), func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) }) {
			got = append(got, at.String())
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v %v, want %q", c.name, got, err, c.want)
		}
	}
}

// A policy whose label disables reports does not appear in reports.
func TestDisabled(t *testing.T) {
	p := rule(t, "", `resources: {kinds: [Pod]}`, pattern)
	p.Labels = map[string]string{ephemeral.DisabledLabel: ""}
	if k, err := plan(catalog.NewStatic([]*policy.Program{p}), served); err != nil || len(k) != 0 {
		t.Errorf("%v %v", k, err)
	}
}

// Of a policy with several rules, scans evaluate only the eligible ones; the catalog's list does not change.
func TestSelections(t *testing.T) {
	p := program(t, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  rules:
  - name: scanned
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    `+pattern+`
  - name: asks-who
    match: {any: [{resources: {kinds: [ConfigMap]}, subjects: [{kind: User, name: me}]}]}
    `+pattern+"\n")
	s := &set{resource: Resource{served[2].GVR(), served[2].Kind}, snapshot: catalog.NewStatic([]*policy.Program{p})}
	req := &policy.Request{Review: policy.Review{Origin: policy.FromScan, Operation: policy.Create, GVK: served[2].GVK(), Object: value.Of(map[string]any{})}}
	for range 2 {
		got := s.selections(req, nil)
		if len(got) != 1 || len(got[0].Rules) != 1 || got[0].Rules[0].Name != "scanned" {
			t.Fatalf("%+v", got)
		}
	}
	if len(s.snapshot.For(req, catalog.Route{Stages: policy.StageValidate})[0].Rules) != 2 {
		t.Error("the shared list was changed")
	}
}
