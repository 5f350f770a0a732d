bad {
	containers[_].securityContext.procMount != "Default"
}
