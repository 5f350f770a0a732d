package charts_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"ephor.invalid/ephor/hack/chart/helm"
	"ephor.invalid/ephor/internal/compile"
)

// Each controller's ClusterRole aggregates roles with its aggregation label, and with the older labels of Kyverno's chart, which users'
// roles have. It does not aggregate roles for other controllers. The name of the release does not matter.
func TestAggregation(t *testing.T) {
	controllers := []string{"admission-controller", "background-controller", "cleanup-controller", "reports-controller"}
	for _, args := range [][]string{{helm.Release}, {"another"}, {helm.Release, "-f", "testdata/names.values"}} {
		docs, err := helm.Template("ephor", args[0], append([]string{"-f", "testdata/base.values"}, args[1:]...)...)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, role := range decode[rbacv1.ClusterRole](t, docs, "ClusterRole") {
			if role.AggregationRule == nil {
				continue
			}
			found++
			_, own, _ := strings.Cut(role.Name, ":")
			for _, c := range controllers {
				for _, set := range []labels.Set{
					{"rbac.kyverno.io/aggregate-to-" + c: "true"},
					{"app.kubernetes.io/component": c, "app.kubernetes.io/instance": "kyverno", "app.kubernetes.io/part-of": "kyverno"},
				} {
					if got := selects(t, role.AggregationRule, set); got != (c == own) {
						t.Errorf("release %v: the role %s selects %v: %v", args, role.Name, set, got)
					}
				}
			}
			if core := (labels.Set{"app.kubernetes.io/component": own}); selects(t, role.AggregationRule, core) {
				t.Errorf("release %v: the role %s selects %v", args, role.Name, core)
			}
		}
		if found != len(controllers) {
			t.Errorf("release %v: %d aggregated roles", args, found)
		}
	}
}

func selects(t *testing.T, rule *rbacv1.AggregationRule, set labels.Set) bool {
	t.Helper()
	return slices.ContainsFunc(rule.ClusterRoleSelectors, func(s metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		if err != nil {
			t.Fatal(err)
		}
		return selector.Matches(set)
	})
}

// The roles for users list the resources of policies.kyverno.io in alphabetical order, because tests of users compare the lists.
func TestRolesForUsers(t *testing.T) {
	want := []string{"policyexceptions"}
	for _, k := range compile.Kinds {
		if k.Group == "policies.kyverno.io" {
			want = append(want, k.Resource)
		}
	}
	slices.Sort(want)
	verbs := map[string][]string{
		"kyverno:rbac:admin:policies": {"create", "delete", "get", "list", "patch", "update", "watch"}, "kyverno:rbac:view:policies": {"get", "list", "watch"},
	}
	for _, role := range decode[rbacv1.ClusterRole](t, template(t), "ClusterRole") {
		if verbs[role.Name] == nil {
			continue
		}
		if len(role.Rules) != 2 || !reflect.DeepEqual(role.Rules[1], rbacv1.PolicyRule{APIGroups: []string{"policies.kyverno.io"}, Resources: want, Verbs: verbs[role.Name]}) {
			t.Errorf("%s (templates/rbac/users.yaml) is to name these resources of policies.kyverno.io, in this order: %q\nit has the rules %v", role.Name, want, role.Rules)
		}
		delete(verbs, role.Name)
	}
	if len(verbs) > 0 {
		t.Errorf("no such roles: %v", verbs)
	}
}
