allowed := {"RuntimeDefault", "Localhost"}

bad {
	type := spec.securityContext.seccompProfile.type
	not allowed[type]
}

bad {
	type := containers[_].securityContext.seccompProfile.type
	not allowed[type]
}
