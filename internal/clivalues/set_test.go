package clivalues

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const valuesText = `apiVersion: cli.kyverno.io/v1alpha1
kind: Value
globalValues:
  request.mode: dev
  cm.data.a: global
  cm.data.b: global
policies:
- name: ns/p
  resources:
  - name: web
    values:
      cm.data.a: resource
      request.operation: UPDATE
      request.object.metadata.labels."a.b/c": x
      request.oldObject: {spec: {num: 1}}
  rules:
  - name: check
    values:
      cm: {data: {c: rule}}
      element.name: each
    foreachValues:
      image.tag: [v1, v2]
namespaceSelector:
- {name: shop, labels: {tier: gold}}
- {name: bank, labels: {tier: silver}}
namespaces:
- metadata: {name: bank, labels: {tier: gold}}
subresources:
- subresource: {name: deployments/scale, kind: Scale, group: autoscaling, version: v1}
  parentResource: {name: deployments, kind: Deployment, group: apps, version: v1, namespaced: true, singularName: "", verbs: null}
`

func TestPrecedence(t *testing.T) {
	spec, diags := ReadValues(write(t, valuesText))
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	assignments, diags := ParseAssignments([]string{"cm.data.b=set,bad,=x,y=,a=b=c,request.object.x=1,", "cm.data.b=again"})
	if len(diags) != 6 || diags.HasErrors() || diags[0].String() != `warning: --set: "bad" is not name=value (it is passed over: write --set NAME=VALUE)` {
		t.Errorf("warnings %v", diags)
	}
	s := New(spec, assignments)
	v, err := s.For("p", "web")
	if err != nil || v.Operation != policy.Update {
		t.Fatalf("operation %q, %v", v.Operation, err)
	}
	if want := map[string]any{"metadata": map[string]any{"labels": map[string]any{"a.b/c": "x"}}}; !reflect.DeepEqual(v.Object, want) {
		t.Errorf("object %v", v.Object)
	}
	if want := map[string]any{"spec": map[string]any{"num": 1.0}}; !reflect.DeepEqual(v.OldObject, want) {
		t.Errorf("old object %v", v.OldObject)
	}
	for _, r := range []*policy.Rule{{Name: "check"}, {Name: "autogen-check", Origin: policy.Origin{Parent: "check"}}} {
		g := v.Rule(nil, r)
		want := map[string]any{
			"cm":      map[string]any{"data": map[string]any{"a": "resource", "b": "set", "c": "rule"}},
			"request": map[string]any{"mode": "dev"},
			"element": map[string]any{"name": "each"},
		}
		if !reflect.DeepEqual(g.Names, want) {
			t.Errorf("%s: %v", r.Name, g.Names)
		}
		for i, tag := range []any{"v1", "v2", nil} {
			e := g.Elements(i)
			image, _ := e["image"].(map[string]any)
			if image["tag"] != tag || !reflect.DeepEqual(e["element"], want["element"]) {
				t.Errorf("element %d: %v", i, e)
			}
		}
	}
	other, _ := s.For("other", "web")
	if g := other.Rule(nil, &policy.Rule{Name: "check"}); other.Operation != "" || !reflect.DeepEqual(g.Names, map[string]any{
		"cm": map[string]any{"data": map[string]any{"a": "global", "b": "set"}}, "request": map[string]any{"mode": "dev"}}) || g.Elements != nil {
		t.Errorf("another policy: %v", g.Names)
	}
	if n := s.Namespaces(); n["shop"]["tier"] != "gold" || n["bank"]["tier"] != "gold" {
		t.Errorf("namespaces %v", n)
	}
	if o := s.Objects(); len(o) != 1 || !reflect.DeepEqual(o[0]["metadata"], map[string]any{"name": "bank", "labels": map[string]any{"tier": "gold"}}) || o[0]["kind"] != "Namespace" {
		t.Errorf("objects %v", o)
	}
	sub, ok := s.Subresource(schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"})
	if !ok || sub.Parent.Kind != "Deployment" || sub.Resource != "deployments" || sub.Name != "scale" {
		t.Errorf("subresource %+v", sub)
	}
}

func TestNothingGiven(t *testing.T) {
	var none *Set
	v, err := none.For("p", "r")
	if err != nil || v.Rule(nil, &policy.Rule{Name: "x"}) != nil || none.HasValues() || New(nil, nil).HasValues() || none.Namespaces() != nil {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestOperationMustExist(t *testing.T) {
	for given, shown := range map[any]string{"MOVE": `"MOVE"`, "update": `"update"`, 5.0: `5`, true: `true`} {
		_, err := New(nil, map[string]any{"request.operation": given}).For("p", "r")
		if want := "invalid request.operation value " + shown + ", must be one of CREATE, UPDATE, DELETE, CONNECT"; err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", given, err, want)
		}
	}
	for _, given := range []any{"", nil} {
		if v, err := New(nil, map[string]any{"request.operation": given}).For("p", "r"); err != nil || v.Operation != "" {
			t.Errorf("%v: %+v, %v", given, v, err)
		}
	}
}

// All mistakes in a file are reported, each with its line.
func TestMistakes(t *testing.T) {
	path := write(t, "apiVersion: x\nkind: Values\nglobalValue: {a: b}\npolicies:\n- name: p\n  resources:\n  - name: r\n    value: {}\nNamespaceSelector:\n- {name: shop}\n")
	_, diags := ReadValues(path)
	var got []string
	for _, d := range diags {
		got = append(got, strings.TrimPrefix(d.String(), path))
	}
	want := []string{
		`:9: warning: NamespaceSelector: the field "NamespaceSelector" is read as "namespaceSelector"`,
		`:3: globalValue: unknown field "globalValue" (did you mean "globalValues"?)`,
		`:8: policies[0].resources[0].value: unknown field "value" (did you mean "values"?)`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for name, read := range map[string]func(string) diag.List{
		"values":   func(p string) diag.List { _, d := ReadValues(p); return d },
		"userinfo": func(p string) diag.List { _, d := ReadUserInfo(p, false); return d },
	} {
		if d := read(write(t, "globalValues: {}\n")); !strings.Contains(d.Error(), name+" file") || !strings.Contains(d.Error(), "uses a deprecated schema") {
			t.Errorf("%s without apiVersion and kind: %v", name, d)
		}
		if d := read("nowhere.yaml"); !strings.Contains(d.Error(), "nowhere.yaml: cannot read the") {
			t.Errorf("%s that is not there: %v", name, d)
		}
	}
}

func TestUser(t *testing.T) {
	u, diags := ReadUserInfo(write(t, "apiVersion: x\nkind: UserInfo\nroles: [ns:r]\nclusterRoles: [admin]\nuserInfo: {username: u, groups: [g], extra: {k: [v]}}\n"), false)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	old, diags := ReadUserInfo(write(t, "clusterRoles: [admin]\n"), true)
	if diags.HasErrors() || len(diags) != 1 || len(old.ClusterRoles) != 1 {
		t.Errorf("the old schema: %v, %+v", diags, old)
	}
	s := New(nil, nil)
	s.SetUser(u)
	user, roles := s.User()
	if user.Username != "u" || user.Groups[0] != "g" || user.Extra["k"][0] != "v" || roles.Roles[0] != "ns:r" || roles.ClusterRoles[0] != "admin" {
		t.Errorf("%+v %+v", user, roles)
	}
}
