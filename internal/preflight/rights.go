package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/charts"
	"ephor.invalid/ephor/internal/policyreview"
	"ephor.invalid/ephor/internal/world"
)

// future answers which rights the installation's service accounts will have once Ephor's chart has replaced the ClusterRoles. The API
// server cannot answer that, because it uses the current roles.
type future struct {
	accounts policyreview.Accounts
	granted  map[string][]grant // by user name
}

// grant is the effect of a binding: rules for all namespaces, or for one.
type grant struct {
	namespace string
	rules     []rbacv1.PolicyRule
}

// Allowed implements world.Access.
func (f *future) Allowed(_ context.Context, q world.AccessRequest) (bool, string, error) {
	for _, g := range f.granted[q.Username] {
		if g.namespace != "" && g.namespace != q.Namespace {
			continue
		}
		if slices.ContainsFunc(g.rules, func(r rbacv1.PolicyRule) bool { return permits(r, q) }) {
			return true, "", nil
		}
	}
	return false, "", nil
}

// permits reports whether a rule permits the request, with the semantics of the API server's authorizer.
func permits(r rbacv1.PolicyRule, q world.AccessRequest) bool {
	resource := q.Resource
	if q.Subresource != "" {
		resource += "/" + q.Subresource
	}
	return has(r.Verbs, q.Verb) && has(r.APIGroups, q.Group) &&
		(has(r.Resources, resource) || q.Subresource != "" && slices.Contains(r.Resources, "*/"+q.Subresource)) &&
		(len(r.ResourceNames) == 0 || q.Name != "" && slices.Contains(r.ResourceNames, q.Name))
}

func has(list []string, wanted string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, wanted)
}

// rendered returns the roles in Ephor's chart with its default values.
func rendered() (roles map[string]rbacv1.ClusterRole, bindings []rbacv1.ClusterRoleBinding, err error) {
	text, err := charts.YAML("dev")
	if err != nil {
		return nil, nil, err
	}
	roles = map[string]rbacv1.ClusterRole{}
	for _, doc := range charts.Documents(text) {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &meta); err != nil {
			return nil, nil, fmt.Errorf("the render of the chart: %w", err)
		}
		switch meta.Kind {
		case "ClusterRole":
			var r rbacv1.ClusterRole
			err = yaml.Unmarshal(doc, &r)
			roles[r.Name] = r
		case "ClusterRoleBinding":
			var b rbacv1.ClusterRoleBinding
			err = yaml.Unmarshal(doc, &b)
			bindings = append(bindings, b)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("the render of the chart: %w", err)
		}
	}
	return roles, bindings, nil
}

// futureRights joins the chart's roles and the roles in the cluster that the switch does not change.
func (s *state) futureRights(ctx context.Context) (*future, error) {
	roles, bindings, err := rendered()
	if err != nil {
		return nil, err
	}
	var stored rbacv1.ClusterRoleList
	if err := s.Reader.List(ctx, &stored); err != nil {
		return nil, fmt.Errorf("list ClusterRoles: %w", err)
	}
	var bound rbacv1.ClusterRoleBindingList
	if err := s.Reader.List(ctx, &bound); err != nil {
		return nil, fmt.Errorf("list ClusterRoleBindings: %w", err)
	}
	var inNamespaces rbacv1.RoleBindingList
	if err := s.Reader.List(ctx, &inNamespaces); err != nil {
		return nil, fmt.Errorf("list RoleBindings: %w", err)
	}
	var local rbacv1.RoleList
	if err := s.Reader.List(ctx, &local); err != nil {
		return nil, fmt.Errorf("list Roles: %w", err)
	}
	for _, r := range stored.Items {
		if _, replaced := roles[r.Name]; !replaced && !goes(&r) {
			roles[r.Name] = r
		}
	}
	f := &future{granted: map[string][]grant{}, accounts: policyreview.Accounts{
		Background: s.account("background-controller"), Cleanup: s.account("cleanup-controller"),
	}}
	add := func(subjects []rbacv1.Subject, namespace string, rules []rbacv1.PolicyRule) {
		for _, name := range users(subjects, namespace) {
			f.granted[name] = append(f.granted[name], grant{namespace, rules})
		}
	}
	for _, b := range append(bindings, bound.Items...) {
		add(b.Subjects, "", rulesOf(roles, b.RoleRef.Name))
	}
	for _, b := range inNamespaces.Items {
		rules := rulesOf(roles, b.RoleRef.Name)
		if b.RoleRef.Kind == "Role" {
			rules = nil
			for _, r := range local.Items {
				if r.Namespace == b.Namespace && r.Name == b.RoleRef.Name {
					rules = r.Rules
				}
			}
		}
		add(b.Subjects, b.Namespace, rules)
	}
	return f, nil
}

// goes reports whether the switch deletes a role, because Kyverno's release created it. Roles with rights from the values stay, since
// Ephor's chart creates them from the same values.
func goes(r *rbacv1.ClusterRole) bool {
	return ownedByHelm(r) && r.Labels["app.kubernetes.io/part-of"] == "kyverno" && !strings.HasSuffix(r.Name, ":additional")
}

// rulesOf returns the rules of a role, including those that it aggregates.
func rulesOf(roles map[string]rbacv1.ClusterRole, name string) []rbacv1.PolicyRule {
	role, ok := roles[name]
	if !ok || role.AggregationRule == nil {
		return role.Rules
	}
	var rules []rbacv1.PolicyRule
	for _, other := range sorted(roles) {
		if other != name && slices.ContainsFunc(role.AggregationRule.ClusterRoleSelectors, func(sel metav1.LabelSelector) bool {
			selector, err := metav1.LabelSelectorAsSelector(&sel)
			return err == nil && selector.Matches(labels.Set(roles[other].Labels))
		}) {
			rules = append(rules, roles[other].Rules...)
		}
	}
	return rules
}

// users returns the names of the users that subjects stand for; it leaves out groups of all service accounts.
func users(subjects []rbacv1.Subject, namespace string) (out []string) {
	for _, s := range subjects {
		if s.Kind == "ServiceAccount" {
			out = append(out, "system:serviceaccount:"+cmp.Or(s.Namespace, namespace)+":"+s.Name)
		}
	}
	return out
}

func (s *state) account(controller string) string {
	return "system:serviceaccount:" + s.Namespace + ":kyverno-" + controller
}
