package convert

// roles returns the condition that a binding gives one of these roles to the requester: Roles of any namespace, written namespace:name, or
// ClusterRoles, in the cluster or in the namespace of the request.
func (c *converter) roles(names []string, kind, path string) expr {
	if c.policy.Kind == "Policy" {
		c.refuse(path, "a namespaced policy cannot read the bindings of all namespaces", "write a ClusterPolicy")
		return no
	}
	in := func(resource string, of expr, namespace string) expr {
		const username = "request.userInfo.?username.orValue('')"
		holds := and(of, member("binding.?subjects.orValue([])").macro("exists", "subject", or(
			and(comparison("subject.kind == 'User'"), comparison("subject.name == "+username)),
			and(comparison("subject.kind == 'Group'"), comparison("subject.name in request.userInfo.?groups.orValue([])")),
			and(comparison("subject.kind == 'ServiceAccount'"), comparison(username+" == 'system:serviceaccount:' + subject.?namespace.orValue("+namespace+") + ':' + subject.name")),
		)))
		return member("dyn(resource.list('rbac.authorization.k8s.io/v1', '"+resource+"', '')).items").macro("exists", "binding", holds)
	}
	refers := comparison("binding.roleRef.kind == " + text(kind))
	named := comparison("binding.roleRef.name in " + list(names))
	if kind == "Role" {
		named = comparison("(binding.metadata.namespace + ':' + binding.roleRef.name) in " + list(names))
		return in("rolebindings", and(refers, named), "binding.metadata.namespace")
	}
	here := comparison("binding.metadata.namespace == request.?namespace.orValue('')")
	return or(in("clusterrolebindings", named, "''"), in("rolebindings", and(here, refers, named), "binding.metadata.namespace"))
}
