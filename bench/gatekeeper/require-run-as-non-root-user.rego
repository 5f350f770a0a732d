bad {
	spec.securityContext.runAsUser <= 0
}

bad {
	containers[_].securityContext.runAsUser <= 0
}
