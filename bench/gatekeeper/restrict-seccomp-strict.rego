allowed := {"RuntimeDefault", "Localhost"}

bad {
	c := containers[_]
	not restricted(c)
}

restricted(c) {
	allowed[c.securityContext.seccompProfile.type]
}

restricted(c) {
	not c.securityContext.seccompProfile.type
	allowed[spec.securityContext.seccompProfile.type]
}
