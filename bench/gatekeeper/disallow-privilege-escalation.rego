bad {
	c := containers[_]
	not forbids(c)
}

forbids(c) {
	c.securityContext.allowPrivilegeEscalation == false
}
