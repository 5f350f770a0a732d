bad {
	spec.hostPID
}

bad {
	spec.hostIPC
}

bad {
	spec.hostNetwork
}
