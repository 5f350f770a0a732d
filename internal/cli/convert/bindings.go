package convert

import (
	"context"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/policy"
)

// Requesters that have the roles that a rule names.
const (
	roleHolder  = "holder@example.com"
	roleHolders = "holders"
)

// rolesOf returns the roles that the filters of a policy name.
func rolesOf(v any) (out policy.Roles) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			list, _ := e.([]any)
			for _, one := range list {
				name, isText := one.(string)
				switch {
				case isText && k == "roles" && strings.Contains(name, ":"):
					out.Roles = append(out.Roles, name)
				case isText && k == "clusterRoles":
					out.ClusterRoles = append(out.ClusterRoles, name)
				}
			}
			below := rolesOf(e)
			out.Roles, out.ClusterRoles = append(out.Roles, below.Roles...), append(out.ClusterRoles, below.ClusterRoles...)
		}
	case []any:
		for _, e := range v {
			below := rolesOf(e)
			out.Roles, out.ClusterRoles = append(out.Roles, below.Roles...), append(out.ClusterRoles, below.ClusterRoles...)
		}
	}
	return out
}

// bindings returns the bindings by which a requester and a group have roles.
func bindings(roles policy.Roles) (out []map[string]any) {
	add := func(kind, namespace, role, name string, subject map[string]any) {
		metadata := map[string]any{"name": strings.NewReplacer(":", "-").Replace(name + "-" + role)}
		if namespace != "" {
			metadata["namespace"] = namespace
		}
		out = append(out, map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "subjects": []any{subject},
			"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": strings.TrimSuffix(kind, "Binding"), "name": role},
		})
	}
	for _, r := range roles.Roles {
		namespace, role, _ := strings.Cut(r, ":")
		add("RoleBinding", namespace, role, "role", map[string]any{"kind": "User", "name": roleHolder})
	}
	for _, r := range roles.ClusterRoles {
		add("ClusterRoleBinding", "", r, "cluster-role", map[string]any{"kind": "Group", "name": roleHolders})
	}
	return out
}

// resolver returns the function that looks up the roles of a requester.
func resolver(roles policy.Roles, u *policy.User) func(context.Context) (policy.Roles, error) {
	return func(context.Context) (policy.Roles, error) {
		var out policy.Roles
		if u.Username == roleHolder {
			out.Roles = roles.Roles
		}
		if slices.Contains(u.Groups, roleHolders) {
			out.ClusterRoles = roles.ClusterRoles
		}
		return out, nil
	}
}
