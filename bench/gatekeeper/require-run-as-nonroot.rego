bad {
	c := containers[_]
	not non_root(c)
}

non_root(c) {
	c.securityContext.runAsNonRoot
}

non_root(c) {
	not decides(c)
	spec.securityContext.runAsNonRoot
}

decides(c) {
	is_boolean(c.securityContext.runAsNonRoot)
}
