bad {
	containers[_].ports[_].hostPort != 0
}
