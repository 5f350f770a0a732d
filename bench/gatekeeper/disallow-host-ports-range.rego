bad {
	port := containers[_].ports[_].hostPort
	port > 0
	port < 5000
}

bad {
	containers[_].ports[_].hostPort > 6000
}
