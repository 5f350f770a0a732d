package charts_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// right is one thing that a controller may do.
type right struct {
	controller string // the component's name, in the form admission-controller
	where      string // "cluster", or "own" for the installation's namespace
	group      string // "core" for the API group without a name
	resource   string
	name       string // of the only object, or empty for all
	verb       string
}

func (r right) String() string {
	return fmt.Sprintf("%s | %s | %s | %s | %s | %s", r.controller, r.where, r.group, r.resource, cmp.Or(r.name, "all"), r.verb)
}

// rightsOf adds what the rules give.
func rightsOf(into map[right]string, controller, where string, rules []rbacv1.PolicyRule, source string) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						into[right{controller, where, cmp.Or(group, "core"), resource, name, verb}] = source
					}
				}
			}
		}
	}
}

var controllerRole = regexp.MustCompile(`^kyverno:([a-z]+-controller)(:.*)?$`)

// given are the rights of the controllers in all renders, each with a render that gives it. What values add is not there:
// the roles :additional, and the values of testdata/rbac.yaml.
func given(t *testing.T) map[right]string {
	t.Helper()
	all := map[right]string{}
	for name, docs := range renders(t) {
		if name == "testdata/rbac.yaml" {
			continue
		}
		for _, role := range decode[rbacv1.ClusterRole](t, docs, "ClusterRole") {
			if m := controllerRole.FindStringSubmatch(role.Name); m != nil && m[2] != ":additional" {
				rightsOf(all, m[1], "cluster", role.Rules, name)
			}
			for _, rule := range role.Rules {
				if len(rule.NonResourceURLs) > 0 {
					t.Errorf("%s: %s: docs/rbac.md has no column for URLs: %v", name, role.Name, rule.NonResourceURLs)
				}
			}
		}
		for _, role := range decode[rbacv1.Role](t, docs, "Role") {
			m := controllerRole.FindStringSubmatch(role.Name)
			if m == nil {
				t.Errorf("%s: the Role %s is not that of a controller", name, role.Name)
				continue
			}
			rightsOf(all, m[1], "own", role.Rules, name)
		}
	}
	return all
}

// documented are the rights of the tables in docs/rbac.md, each with its reason.
func documented(t *testing.T, page string) map[right]string {
	t.Helper()
	all := map[right]string{}
	controller := ""
	for i, line := range strings.Split(page, "\n") {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			controller = ""
			if strings.HasSuffix(title, "-controller") {
				controller = title
			}
			continue
		}
		if controller == "" || !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| Where") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 6 || strings.TrimSpace(cells[5]) == "" {
			t.Errorf("docs/rbac.md:%d: %d cells, want where, group, resources, names, verbs and what for", i+1, len(cells))
			continue
		}
		rule := rbacv1.PolicyRule{APIGroups: strings.Split(cells[1], ", "), Resources: strings.Split(cells[2], ", "), Verbs: strings.Split(cells[4], ", ")}
		if cells[3] != "all" {
			rule.ResourceNames = strings.Split(cells[3], ", ")
		}
		rightsOf(all, controller, cells[0], []rbacv1.PolicyRule{rule}, fmt.Sprintf("docs/rbac.md:%d", i+1))
	}
	return all
}

// Each right that the chart gives to a controller has a line in docs/rbac.md, and each line stands for a right.
func TestRightsAreJustified(t *testing.T) {
	page, err := os.ReadFile("../docs/rbac.md")
	if err != nil {
		t.Fatal(err)
	}
	have, want := documented(t, string(page)), given(t)
	if len(want) < 100 {
		t.Fatalf("only %d rights were found in the renders", len(want))
	}
	for _, r := range slices.SortedFunc(maps.Keys(want), compareRights) {
		if have[r] == "" {
			t.Errorf("docs/rbac.md has no line for a right that %s gives: %s: say there what it is for, or take the right away", want[r], r)
		}
	}
	for _, r := range slices.SortedFunc(maps.Keys(have), compareRights) {
		if want[r] == "" {
			t.Errorf("%s: no render gives this right: %s", have[r], r)
		}
	}
}

func compareRights(a, b right) int { return strings.Compare(a.String(), b.String()) }

// A line that is missing and a line too many are both found.
func TestRightsDiffer(t *testing.T) {
	page := "## admission-controller\n\n| Where | API group | Resources | Names | Verbs | What for |\n|---|---|---|---|---|---|\n| own | core | secrets | a, b | get, list | certificates |\n"
	got := documented(t, page)
	for _, want := range []right{
		{"admission-controller", "own", "core", "secrets", "a", "get"}, {"admission-controller", "own", "core", "secrets", "b", "list"},
	} {
		if got[want] == "" {
			t.Errorf("%s is missing in %v", want, got)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d rights, want 4: %v", len(got), got)
	}
}

// No controller may do what would let it give itself more: all verbs, all resources, escalate, bind, impersonate, or Secrets
// and workloads outside of its namespace.
func TestRightsAreBounded(t *testing.T) {
	for r, source := range given(t) {
		switch {
		case r.group == "*", r.resource == "*", r.verb == "*",
			r.verb == "escalate", r.verb == "bind", r.verb == "impersonate", r.verb == "approve", r.verb == "sign",
			r.where == "cluster" && r.resource == "secrets",
			r.where == "cluster" && strings.HasPrefix(r.resource, "pods"),
			strings.HasPrefix(r.resource, "serviceaccounts/"),
			r.group == "rbac.authorization.k8s.io" && r.resource != "clusterroles/finalizers" && !slices.Contains([]string{"get", "list", "watch"}, r.verb):
			t.Errorf("%s gives %s", source, r)
		}
	}
}
