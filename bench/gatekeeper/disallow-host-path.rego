bad {
	spec.volumes[_].hostPath
}
