package settings

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func kind(group, version, k string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: k}
}

func TestFiltered(t *testing.T) {
	const shipped = `[*/*,kyverno,*] [Event,*,*] [*/*,kube-system,*] [Node,*,*] [Node/?*,*,*] [Pod/binding,*,*]
	  [ReplicaSet,*,*] [ReplicaSet/?*,*,*] [ClusterRole,,kyverno:*] [Only] [apps/v1/Deployment,d,*],[v1/Secret/x,s,*],
	  [batch/*/Job*,j,a?] [Pod.exec,dots,*] [apps/v1/Deployment.scale,dots,*] [v1/postgresql,low,*] [*/*/*,all,*] [*/*/scale,scales,*] [*/*/Pod,pods,*]`
	s, diags := Parse(map[string]string{"resourceFilters": shipped})
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	pod, deployment, node := kind("", "v1", "Pod"), kind("apps", "v1", "Deployment"), kind("", "v1", "Node")
	namespace := kind("", "v1", "Namespace")
	for _, c := range []struct {
		gvk           schema.GroupVersionKind
		sub, ns, name string
		want          bool
	}{
		{pod, "", "default", "a", false},
		{pod, "", "kube-system", "a", true},
		{pod, "exec", "kube-system", "a", true},
		{pod, "binding", "default", "a", true},
		{pod, "", "", "", false},
		{kind("", "v1", "Event"), "", "default", "e", true},
		{kind("events.k8s.io", "v1", "Event"), "", "default", "e", true},
		{node, "", "", "n", true},
		{node, "status", "", "n", true},
		{kind("apps", "v1", "ReplicaSet"), "", "default", "r", true},
		{kind("apps", "v1", "ReplicaSet"), "scale", "default", "r", true},
		{deployment, "", "d", "x", true},
		{deployment, "scale", "d", "x", false},
		{kind("extensions", "v1", "Deployment"), "", "d", "x", false},
		{kind("apps", "v2", "Deployment"), "", "d", "x", false},
		{namespace, "", "", "kube-system", true},
		{namespace, "", "", "other", false},
		{namespace, "", "kube-system", "kube-system", true},
		{kind("rbac.authorization.k8s.io", "v1", "ClusterRole"), "", "", "kyverno:x", true},
		{kind("rbac.authorization.k8s.io", "v1", "ClusterRole"), "", "", "admin", false},
		{kind("g", "v1", "Only"), "", "", "", true},
		{kind("g", "v1", "Only"), "", "", "named", false},
		{kind("", "v1", "Secret"), "x", "s", "n", true},
		{kind("", "v1", "Secret"), "", "s", "n", false},
		{kind("batch", "v1beta1", "JobX"), "", "j", "ab", true},
		{kind("batch", "v1beta1", "JobX"), "", "j", "abc", false},
		{kind("kyverno.io", "v2", "UpdateRequest"), "", "x", "n", true},
		{pod, "exec", "dots", "n", true},
		{pod, "", "dots", "n", false},
		{deployment, "scale", "dots", "n", true},
		{kind("acid.zalan.do", "v1", "postgresql"), "", "low", "n", true},
		{kind("acid.zalan.do", "v2", "postgresql"), "", "low", "n", false},
		{pod, "exec", "all", "n", true},
		{pod, "", "all", "n", true},
		{deployment, "scale", "scales", "n", true},
		{deployment, "", "scales", "n", false},
		{pod, "", "pods", "n", true},
		{pod, "exec", "pods", "n", false},
	} {
		if got := s.Filtered(c.gvk, c.sub, c.ns, c.name); got != c.want {
			t.Errorf("Filtered(%v, %q, %q, %q) = %v", c.gvk, c.sub, c.ns, c.name, got)
		}
	}
}

// Objects that cleanup policies do not delete.
func TestExcludedFromCleanup(t *testing.T) {
	s, diags := Parse(map[string]string{"resourceFilters": `[*/*,kyverno,*] [Event,*,*] [Node,*,*] [Node/?*,*,*] [Pod/binding,*,*]
	  [ReplicaSet,*,*] [ReplicaSet/?*,*,*] [ClusterRole,,kyverno:*] [Secret,prod,*]`})
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	for _, c := range []struct {
		gvk      schema.GroupVersionKind
		ns, name string
		want     bool
	}{
		{kind("", "v1", "Pod"), "default", "a", false},
		{kind("", "v1", "Pod"), "kyverno", "a", true},
		{kind("", "v1", "Event"), "default", "a", false},
		{kind("", "v1", "Event"), "kyverno", "a", true},
		{kind("", "v1", "Node"), "", "a", true},
		{kind("apps", "v1", "ReplicaSet"), "default", "a", true},
		{kind("rbac.authorization.k8s.io", "v1", "ClusterRole"), "", "kyverno:a", true},
		{kind("rbac.authorization.k8s.io", "v1", "ClusterRole"), "", "a", false},
		{kind("", "v1", "Secret"), "prod", "a", true},
		{kind("", "v1", "Secret"), "test", "a", false},
		{kind("", "v1", "Namespace"), "", "kyverno", true},
		{kind("kyverno.io", "v2", "UpdateRequest"), "other", "a", false},
	} {
		if got := s.Spared(c.gvk, c.ns, c.name); got != c.want {
			t.Errorf("Spared(%v, %q, %q) = %v", c.gvk, c.ns, c.name, got)
		}
	}
}

func TestExcluded(t *testing.T) {
	s, diags := Parse(map[string]string{
		"excludeGroups":       "system:nodes, !system:masters",
		"excludeUsernames":    "system:serviceaccount:infra:*,!keep",
		"excludeClusterRoles": "ops-*",
		"excludeRoles":        "!team:auditor",
	})
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	for _, c := range []struct {
		name                       string
		groups, roles, clusterRole []string
		want                       bool
	}{
		{name: "jane"},
		{name: "jane", groups: []string{"system:nodes"}, want: true},
		{name: "jane", groups: []string{"system:nodes", "system:masters"}},
		{name: "system:serviceaccount:infra:bot", want: true},
		{name: "jane", clusterRole: []string{"ops-1"}, want: true},
		{name: "jane", clusterRole: []string{"ops-1"}, roles: []string{"team:auditor"}},
		{name: "keep", groups: []string{"system:nodes"}},
	} {
		got, err := s.Excluded(c.name, c.groups, func() ([]string, []string, error) { return c.roles, c.clusterRole, nil })
		if err != nil || got != c.want {
			t.Errorf("%+v: got %v, %v", c, got, err)
		}
	}
	if _, err := s.Excluded("jane", nil, func() ([]string, []string, error) { return nil, nil, errors.New("no bindings") }); err == nil {
		t.Error("roles that cannot be found are an error, not an empty list")
	}
	if got, err := Defaults().Excluded("jane", nil, func() ([]string, []string, error) { panic("not needed") }); got || err != nil {
		t.Error(got, err)
	}
}

// Each key of the ConfigMap is read in its form, and a mistake is reported at its key.
func TestParse(t *testing.T) {
	s, diags := Parse(map[string]string{
		"defaultRegistry":               "registry.example.com/team",
		"enableDefaultRegistryMutation": "false",
		"generateSuccessEvents":         "true",
		"successEventActions":           "Resource Mutated, Resource Passed",
		"webhooks":                      `{"namespaceSelector":{"matchExpressions":[{"key":"k","operator":"NotIn","values":["v"]}]},"objectSelector":{"matchLabels":{"a":"b"}}}`,
		"webhookAnnotations":            `{"admissions.enforcer/disabled":"true"}`,
		"webhookLabels":                 `{"team":"x"}`,
		"matchConditions":               `[{"name":"n","expression":"true"}]`,
		"updateRequestThreshold":        "7",
		"maxContextSize":                "1Mi",
	})
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	switch {
	case s.DefaultRegistry != "registry.example.com/team", s.MutateRegistry, !s.SuccessEvents, len(s.SuccessEventActions) != 2,
		s.Webhook.NamespaceSelector.MatchExpressions[0].Values[0] != "v", s.Webhook.ObjectSelector.MatchLabels["a"] != "b",
		s.Webhook.Annotations["admissions.enforcer/disabled"] != "true", s.Webhook.Labels["team"] != "x",
		s.Webhook.MatchConditions[0] != MatchCondition{"n", "true"}, s.UpdateRequestThreshold != 7, s.MaxContextSize != 1<<20:
		t.Errorf("%+v", s)
	}
}

func TestBadKeyKeepsDefault(t *testing.T) {
	for key, value := range map[string]string{
		"defaultRegistry": "Not A Registry", "enableDefaultRegistryMutation": "maybe", "generateSuccessEvents": "1x",
		"webhooks": `[{"namespaceSelector":{}}]`, "webhookAnnotations": `{"a":1}`, "webhookLabels": "x", "matchConditions": "{}",
		"updateRequestThreshold": "many", "maxContextSize": "2MM", "resourceFilters": "[Pod,x,y,z]",
	} {
		s, diags := Parse(map[string]string{key: value})
		if len(diags) != 1 || diags[0].Path != "data."+key || !diags.HasErrors() {
			t.Errorf("%s: %v", key, diags)
		}
		d := Defaults()
		if s.DefaultRegistry != d.DefaultRegistry || s.MutateRegistry != d.MutateRegistry || s.UpdateRequestThreshold != 1000 ||
			s.MaxContextSize != d.MaxContextSize || s.Webhook.NamespaceSelector != nil || len(s.Webhook.Annotations) > 0 {
			t.Errorf("%s: the default did not stay: %+v", key, s)
		}
	}
	for bad, want := range map[string]string{
		"[Pod": "the filter [Pod has no closing bracket", "[a/b/c/d/e,*,*]": `"a/b/c/d/e" is not a kind`, "[Pod,*,*": "the filter [Pod,*,* has no closing bracket",
		"[a,b,c,d] [Pod": "more than three parts: kind,namespace,name; the filter [Pod has",
	} {
		// A mistake in one filter does not affect the others.
		s, diags := Parse(map[string]string{"resourceFilters": "[Event,*,*]" + bad + " [*/*,kube-system,*]"})
		if !diags.HasErrors() || len(diags) != 1 || !strings.Contains(diags[0].Summary, want) {
			t.Errorf("%s: %v", bad, diags)
		}
		if !s.Filtered(kind("", "v1", "Event"), "", "x", "e") || !s.Filtered(kind("", "v1", "Pod"), "", "kube-system", "p") || s.Filtered(kind("", "v1", "Pod"), "", "x", "p") {
			t.Errorf("%s: the other filters are lost", bad)
		}
	}
	if _, diags := Parse(map[string]string{"resourcefilters": ""}); diags.HasErrors() || len(diags) != 1 || !strings.Contains(diags[0].Summary, "resourcefilters") {
		t.Error(diags)
	}
}

func TestStore(t *testing.T) {
	var s Store
	if s.Load().DefaultRegistry != "docker.io" {
		t.Error("no defaults")
	}
	s.Set(&Settings{DefaultRegistry: "x"})
	if s.Load().DefaultRegistry != "x" {
		t.Error("not set")
	}
	s.Set(nil)
	if s.Load().DefaultRegistry != "docker.io" {
		t.Error("nil does not restore the defaults")
	}
}

func BenchmarkFiltered(b *testing.B) {
	text := "[Event,*,*] [*/*,kube-system,*] [*/*,kube-public,*] [*/*,kube-node-lease,*] [Node,*,*]"
	for range 50 {
		text += " [ClusterRole,*,kyverno:x] [Pod,kyverno,kyverno-admission-controller-*]"
	}
	s, _ := Parse(map[string]string{"resourceFilters": text})
	pod := kind("", "v1", "Pod")
	b.ReportAllocs()
	for b.Loop() {
		if s.Filtered(pod, "", "default", "nginx") {
			b.Fatal("filtered")
		}
	}
}

// Values that the API server would refuse in a webhook configuration are refused here, since they would block all configurations.
func TestWebhookKeys(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"webhookLabels", `{"team":"a"}`, ""},
		{"webhookLabels", `{"team":"a b"}`, `"a b" is not a value of team`},
		{"webhookLabels", `{"team":1}`, "not a JSON object of texts"},
		{"webhookLabels", `{"-":"a"}`, `"-" is not a name`},
		{"webhookAnnotations", `{"admissions.enforcer/disabled":"any text"}`, ""},
		{"webhookAnnotations", `{"Example.com/Owner":"x"}`, ""}, // the API server ignores the case of their names
		{"webhookLabels", `{"Example.com/Owner":"x"}`, `"Example.com/Owner" is not a name`},
		{"webhookAnnotations", `[]`, "not a JSON object of texts"},
		{"matchConditions", `[{"name":"a","expression":"true"}]`, ""},
		{"matchConditions", `[{"name":"a","expression":"true"},{"name":"a","expression":"true"}]`, "two conditions have the name a"},
		{"matchConditions", `[{"name":"a"}]`, "the condition a has no expression"},
		{"matchConditions", `[{"expression":"true"}]`, `"" is not a name`},
		{"matchConditions", `{}`, "not a JSON list"},
		{"matchConditions", "[" + strings.Repeat(`{},`, 64) + "{}]", "65 conditions, but a webhook takes 64"},
		{"maxContextSize", "-1", "-1 is negative"},
	} {
		s, diags := Parse(map[string]string{c.key: c.value})
		if c.want == "" {
			if len(diags) > 0 || len(s.Webhook.Labels)+len(s.Webhook.Annotations)+len(s.Webhook.MatchConditions) != 1 {
				t.Errorf("%s %s: %v, %+v", c.key, c.value, diags, s.Webhook)
			}
			continue
		}
		if len(diags) != 1 || !strings.Contains(diags[0].Summary, c.want) || len(s.Webhook.Labels)+len(s.Webhook.Annotations)+len(s.Webhook.MatchConditions) != 0 || s.MaxContextSize != 2<<20 {
			t.Errorf("%s %s: %v, want %q", c.key, c.value, diags, c.want)
		}
	}
}

// Every key is documented once.
func TestKeysAreDocumented(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Keys() {
		if seen[k.Name] || k.Form == "" || k.Default == "" || !strings.HasSuffix(k.Doc, ".") {
			t.Errorf("%+v", k.Name)
		}
		seen[k.Name] = true
	}
	if len(seen) != len(readers) || len(seen) != 18 {
		t.Errorf("%d keys", len(seen))
	}
}

// The list of policies that audit first is written in the form in which it is read; a wrong name is a mistake, and the others count.
func TestAuditFirst(t *testing.T) {
	names := map[string]bool{AuditFirstName("ClusterPolicy", "", "a"): true, AuditFirstName("Policy", "n", "b.c"): true}
	text := AuditFirstText(names)
	if text != "ClusterPolicy/a,Policy/n/b.c" {
		t.Error(text)
	}
	s, diags := Parse(map[string]string{AuditFirstKey: text})
	if len(diags) > 0 || !maps.Equal(s.AuditFirst, names) {
		t.Errorf("%v, %v", s.AuditFirst, diags)
	}
	for _, wrong := range []string{"a", "ClusterPolicy/", "ClusterPolicy/A", "Policy/a/b/c", "/a"} {
		s, diags := Parse(map[string]string{AuditFirstKey: wrong + ", " + text})
		if len(diags) != 1 || !maps.Equal(s.AuditFirst, names) {
			t.Errorf("%s: %v, %v", wrong, s.AuditFirst, diags)
		}
	}
}
