package charts_test

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"ephor.invalid/ephor/charts/rights"
	"ephor.invalid/ephor/hack/chart/helm"
	"ephor.invalid/ephor/internal/compile"
)

var controllerRole = regexp.MustCompile(`^kyverno:([a-z]+-controller)(:.*)?$`)

// given returns the rights of the controllers in all renders, each with a render that grants it. Rights that users add with values are left
// out: the roles :additional, and the values of testdata/rbac.yaml.
func given(t *testing.T) map[rights.Right]string {
	t.Helper()
	all := map[rights.Right]string{}
	for name, docs := range renders(t) {
		if name != "testdata/rbac.yaml" {
			givenBy(t, all, name, docs)
		}
	}
	givenBy(t, all, everything, template(t, "-f", everything))
	return all
}

// everything contains the values that enable every feature with its own rights.
const everything = "testdata/all.values"

// givenBy adds the rights that one render grants.
func givenBy(t *testing.T, all map[rights.Right]string, name string, docs []helm.Document) {
	t.Helper()
	add := func(controller, where string, rules []rbacv1.PolicyRule) {
		for _, r := range rights.Of(controller, where, rules) {
			all[r] = name
		}
	}
	for _, role := range decode[rbacv1.ClusterRole](t, docs, "ClusterRole") {
		if m := controllerRole.FindStringSubmatch(role.Name); m != nil && m[2] != ":additional" {
			add(m[1], "cluster", role.Rules)
		}
		for _, rule := range role.Rules {
			if len(rule.NonResourceURLs) > 0 {
				t.Errorf("%s: %s: docs/security/rbac.md has no column for URLs: %v", name, role.Name, rule.NonResourceURLs)
			}
		}
	}
	for _, role := range decode[rbacv1.Role](t, docs, "Role") {
		m := controllerRole.FindStringSubmatch(role.Name)
		if m == nil {
			t.Errorf("%s: the Role %s is not that of a controller", name, role.Name)
			continue
		}
		add(m[1], "own", role.Rules)
	}
}

// documented returns the rights in the tables of docs/security/rbac.md.
func documented(t *testing.T) map[rights.Right]rights.Line {
	t.Helper()
	page, err := os.ReadFile("../docs/security/rbac.md")
	if err != nil {
		t.Fatal(err)
	}
	all, err := rights.Documented(string(page))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// docs/security/rbac.md has a line for each right that the chart grants to a controller, and no other lines.
func TestRightsAreJustified(t *testing.T) {
	have, want := documented(t), given(t)
	if len(want) < 100 {
		t.Fatalf("only %d rights were found in the renders", len(want))
	}
	for _, r := range slices.SortedFunc(maps.Keys(want), compareRights) {
		if have[r].Number == 0 {
			t.Errorf("docs/security/rbac.md has no line for a right that %s gives: %s: say there what it is for, or take the right away", want[r], r)
		}
	}
	for _, r := range slices.SortedFunc(maps.Keys(have), compareRights) {
		if want[r] == "" {
			t.Errorf("docs/security/rbac.md:%d: no render gives this right: %s", have[r].Number, r)
		}
	}
}

// A controller may read the policies of each kind. TestRightsAreJustified compares the documented rights with those of the renders.
func TestPoliciesMayBeRead(t *testing.T) {
	all := documented(t)
	for _, k := range compile.Kinds {
		may := func(verb string) bool {
			for r := range all {
				if r.Where == "cluster" && r.Group == k.Group && r.Resource == k.Resource && r.Verb == verb {
					return true
				}
			}
			return false
		}
		if !may("list") || !may("watch") {
			t.Errorf("no controller may list and watch %s: add them to templates/rbac/_core.tpl and to docs/security/rbac.md", k.GVR().GroupResource())
		}
	}
}

func compareRights(a, b rights.Right) int { return strings.Compare(a.String(), b.String()) }

// Disabling a feature removes its rights: the values in the column "Not with" remove exactly the rights of their rows.
func TestRightsGoWithTheirFeatures(t *testing.T) {
	all := map[rights.Right]string{}
	givenBy(t, all, everything, template(t, "-f", everything))
	want := map[string][]rights.Right{} // by value
	for r, line := range documented(t) {
		if line.Without != "" {
			want[line.Without] = append(want[line.Without], r)
		}
	}
	if len(want) < 8 {
		t.Errorf("only %d values take rights away", len(want))
	}
	for set, rows := range want {
		left := map[rights.Right]string{}
		givenBy(t, left, set, template(t, "-f", everything, "--set", set))
		for _, r := range rows {
			if left[r] != "" {
				t.Errorf("with %s the chart still gives: %s", set, r)
			}
		}
		for r := range all {
			if left[r] == "" && !slices.Contains(rows, r) {
				t.Errorf("with %s the chart does not give this right, and docs/security/rbac.md does not say so: %s", set, r)
			}
		}
	}
}

// generated reports whether generate rules need the right. Without the verbs escalate and bind, the API server denies Roles and RoleBindings
// with more rights than the controller's.
func generated(r rights.Right) bool {
	return r.Controller == "background-controller" && (r.Resource == "roles" || r.Resource == "rolebindings")
}

// Secrets of other namespaces are readable individually, and only if the values name them.
func TestImageSecrets(t *testing.T) {
	for name, docs := range renders(t) {
		found := 0
		for _, role := range decode[rbacv1.Role](t, docs, "Role") {
			if !strings.HasSuffix(role.Name, ":image-secrets") {
				continue
			}
			found++
			want := []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"registry-login", "cosign-key"}, Verbs: []string{"get"}},
				{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"get"}},
			}
			if role.Namespace != "shop" || !reflect.DeepEqual(role.Rules, want) {
				t.Errorf("%s: %s/%s gives %+v", name, role.Namespace, role.Name, role.Rules)
			}
		}
		bound := 0
		for _, binding := range decode[rbacv1.RoleBinding](t, docs, "RoleBinding") {
			if binding.Namespace == "shop" && binding.RoleRef.Kind == "Role" && strings.HasSuffix(binding.RoleRef.Name, ":image-secrets") && len(binding.Subjects) == 1 && binding.Subjects[0].Namespace != "shop" {
				bound++
			}
		}
		want := 0
		if name == "testdata/rbac.yaml" {
			want = 2 // of the admission controller and of the reports controller
		}
		if found != want || bound != want {
			t.Errorf("%s has %d Roles for Secrets of images and %d bindings, want %d", name, found, bound, want)
		}
	}
}

// No controller has rights with which it could extend its rights: all verbs, all resources, escalate, bind, impersonate, or Secrets and
// workloads outside of its namespace.
func TestRightsAreBounded(t *testing.T) {
	for r, source := range given(t) {
		switch {
		case r.Group == "*", r.Resource == "*", r.Verb == "*",
			r.Verb == "escalate", r.Verb == "bind", r.Verb == "impersonate", r.Verb == "approve", r.Verb == "sign",
			r.Where == "cluster" && r.Resource == "secrets",
			r.Where == "cluster" && strings.HasPrefix(r.Resource, "pods"),
			strings.HasPrefix(r.Resource, "serviceaccounts/"),
			r.Group == "rbac.authorization.k8s.io" && !generated(r) && !slices.Contains([]string{"get", "list", "watch"}, r.Verb):
			t.Errorf("%s gives %s", source, r)
		}
	}
}
