allowed := {"RuntimeDefault", "Localhost"}

bad {
	profile := input.review.object.metadata.annotations[key]
	startswith(key, "container.apparmor.security.beta.kubernetes.io/")
	profile != "runtime/default"
	not startswith(profile, "localhost/")
}

bad {
	type := spec.securityContext.appArmorProfile.type
	not allowed[type]
}

bad {
	type := containers[_].securityContext.appArmorProfile.type
	not allowed[type]
}
