package convert

import "strings"

// roles returns the condition that a binding gives one of these roles to the requester: Roles of any namespace, written namespace:name, or
// ClusterRoles, in the cluster or in the namespace of the request.
func (c *converter) roles(names []string, kind, path string) expr {
	out := no
	for _, b := range c.bindings(kind, path) {
		out = or(out, b.list.macro("exists", "binding", and(b.is, comparison(b.role.within(bindsUnary)+" in "+list(names)), b.subjects)))
	}
	return out
}

// held returns the names of the roles of the requester.
func (c *converter) held(kind, path string) term {
	var names []string
	for _, b := range c.bindings(kind, path) {
		names = append(names, b.list.text+".map(binding, "+and(b.is, b.subjects).text+", "+b.role.text+")")
	}
	return term{expr: expr{strings.Join(names, " + "), bindsComparison}.atom(), shape: listShape, elements: textShape}
}

// roleBindings is a list of bindings: which of them give a role of the kind, which of them name the requester, and the name of the role.
type roleBindings struct{ list, is, subjects, role expr }

// bindings returns the lists of bindings that give roles of a kind.
func (c *converter) bindings(kind, path string) []roleBindings {
	if c.policy.Kind == "Policy" {
		c.refuse(path, "a namespaced policy cannot read the bindings of all namespaces", "write a ClusterPolicy")
		return nil
	}
	in := func(resource string, of expr, namespace string, role expr) roleBindings {
		const username = "request.userInfo.?username.orValue('')"
		named := member("binding.?subjects.orValue([])").macro("exists", "subject", or(
			and(comparison("subject.kind == 'User'"), comparison("subject.name == "+username)),
			and(comparison("subject.kind == 'Group'"), comparison("subject.name in request.userInfo.?groups.orValue([])")),
			and(comparison("subject.kind == 'ServiceAccount'"), comparison(username+" == 'system:serviceaccount:' + subject.?namespace.orValue("+namespace+") + ':' + subject.name")),
		))
		return roleBindings{member("dyn(resource.list('rbac.authorization.k8s.io/v1', '" + resource + "', '')).items"), of, named, role}
	}
	refers, name := comparison("binding.roleRef.kind == "+text(kind)), member("binding.roleRef.name")
	if kind == "Role" {
		return []roleBindings{in("rolebindings", refers, "binding.metadata.namespace", expr{"binding.metadata.namespace + ':' + binding.roleRef.name", bindsComparison})}
	}
	here := comparison("binding.metadata.namespace == request.?namespace.orValue('')")
	return []roleBindings{in("clusterrolebindings", yes, "''", name), in("rolebindings", and(here, refers), "binding.metadata.namespace", name)}
}
