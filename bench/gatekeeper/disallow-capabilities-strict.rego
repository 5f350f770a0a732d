bad {
	c := containers[_]
	not drops_all(c)
}

bad {
	containers[_].securityContext.capabilities.add[_] != "NET_BIND_SERVICE"
}

drops_all(c) {
	c.securityContext.capabilities.drop[_] == "ALL"
}
