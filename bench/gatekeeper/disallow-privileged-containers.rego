bad {
	containers[_].securityContext.privileged
}
