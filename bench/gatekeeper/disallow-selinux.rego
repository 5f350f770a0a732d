allowed := {"container_t", "container_init_t", "container_kvm_t", "container_engine_t"}

bad {
	wrong(spec.securityContext.seLinuxOptions)
}

bad {
	wrong(containers[_].securityContext.seLinuxOptions)
}

wrong(options) {
	type := options.type
	not allowed[type]
}

wrong(options) {
	object.get(options, "user", "") != ""
}

wrong(options) {
	object.get(options, "role", "") != ""
}
