bad {
	spec.securityContext.windowsOptions.hostProcess
}

bad {
	containers[_].securityContext.windowsOptions.hostProcess
}
