package constraint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

func decode(t *testing.T, text string) *admissionregistrationv1.MatchResources {
	t.Helper()
	var m admissionregistrationv1.MatchResources
	if err := yaml.UnmarshalStrict([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return &m
}

func request(resource, kind, sub, namespace string, labels map[string]any) *policy.Request {
	return &policy.Request{Review: policy.Review{
		Operation: policy.Create, Namespace: namespace, Name: "x", Subresource: sub,
		GVR:    schema.GroupVersionResource{Version: "v1", Resource: resource},
		GVK:    schema.GroupVersionKind{Version: "v1", Kind: kind},
		Object: value.Of(map[string]any{"metadata": map[string]any{"name": "x", "labels": labels}}),
		ResolveNamespace: func(context.Context) (map[string]string, error) {
			if namespace == "lost" {
				return nil, errors.New("not found")
			}
			return map[string]string{"name": namespace}, nil
		},
	}}
}

func TestMatch(t *testing.T) {
	requests := []struct {
		name string
		*policy.Request
	}{
		{"pod", request("pods", "Pod", "", "a", map[string]any{"app": "web"})},
		{"exec", request("pods", "Pod", "exec", "a", nil)},
		{"secret", request("secrets", "Secret", "", "b", nil)},
		{"node", request("nodes", "Node", "", "", nil)},
		{"namespace", request("namespaces", "Namespace", "", "x", map[string]any{"name": "a"})},
		{"lost", request("pods", "Pod", "", "lost", nil)},
	}
	for _, c := range []struct{ rules, want string }{
		{`{}`, "pod exec secret node namespace lost"},
		{`resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods]}]`, "pod lost"},
		{`resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: ["pods/*", nodes]}]`, "pod exec node lost"},
		{`resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [UPDATE], resources: ["*/*"]}]`, ""},
		{`resourceRules: [{apiGroups: [], apiVersions: ["*"], operations: [CREATE], resources: ["*"]}]`, ""},
		{`resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE], resources: ["*"], scope: Cluster}]`, "node namespace"},
		{`resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE], resources: ["*"], resourceNames: [y]}]`, ""},
		{`
resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE], resources: ["*/*"]}]
excludeResourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: [CREATE], resources: [pods/exec, secrets]}]`, "pod node namespace lost"},
		{`
excludeResourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"], resourceNames: [x]}]`, "exec"},
		{`namespaceSelector: {matchLabels: {name: a}}`, "pod exec node namespace lost?"},
		{`objectSelector: {matchLabels: {app: web}}`, "pod"},
		{`{namespaceSelector: {}, objectSelector: {}}`, "pod exec secret node namespace lost"},
	} {
		compiled, diags := Compile(decode(t, c.rules), "spec", Options{})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		var got []string
		for _, r := range requests {
			ok, err := compiled.Match(t.Context(), r.Request)
			name := r.name
			if err != nil {
				name += "?"
			}
			if ok || err != nil {
				got = append(got, name)
				covered := false
				for _, target := range compiled.Targets() {
					found, err := target.Matches(r.Request)
					covered = covered || found || err != nil
				}
				if !covered {
					t.Errorf("%s: %s matches, and no target covers it", c.rules, r.name)
				}
			}
			for _, x := range compiled.Excludes() {
				if found, _ := x.Matches(r.Request); found && ok {
					t.Errorf("%s: %s matches, and is excluded", c.rules, r.name)
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(strings.Fields(c.want)) {
			t.Errorf("%s\n got %v\nwant %v", c.rules, got, strings.Fields(c.want))
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ rules, want string }{
		{`resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"], scope: Space}]`, "spec.resourceRules[0].scope"},
		{`namespaceSelector: {matchLabels: {"a b": c}}`, "spec.namespaceSelector"},
		{`objectSelector: {matchExpressions: [{key: a, operator: Near}]}`, "spec.objectSelector"},
	} {
		if _, diags := Compile(decode(t, c.rules), "spec", Options{}); !diags.HasErrors() || diags[0].Path != c.want {
			t.Errorf("%s: %v", c.rules, diags)
		}
	}
}

// A rule of some kilobytes can name billions of combinations; they are not expanded.
func TestCombinationsAreBounded(t *testing.T) {
	var rule admissionregistrationv1.NamedRuleWithOperations
	for i := range 1000 {
		rule.APIGroups = append(rule.APIGroups, fmt.Sprint("g", i))
		rule.APIVersions = append(rule.APIVersions, fmt.Sprint("v", i))
		rule.Resources = append(rule.Resources, fmt.Sprint("r", i))
	}
	m := &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule}}
	if c, diags := Compile(m, "spec", Options{}); !diags.HasErrors() || len(c.Targets()) > maxTargets {
		t.Errorf("%d targets, %v", len(c.Targets()), diags)
	}
	rule.APIGroups, rule.APIVersions = []string{"*", "a"}, []string{"v1", "v1"}
	m.ResourceRules[0] = rule
	if c, diags := Compile(m, "spec", Options{}); diags.HasErrors() || len(c.Targets()) != 1000 {
		t.Errorf("%d targets, %v", len(c.Targets()), diags)
	}
}
