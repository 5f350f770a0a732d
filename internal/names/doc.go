// Package names holds the domain of Ephor's own annotations, labels, conditions and schemas.
//
// The domain is a name, not an address: nothing resolves it, and it does not follow the home of the project (home.env). Objects in clusters
// carry it. docs/operating/annotations.md lists every name below it.
//
//	const Annotation = names.Domain + "pause"
//
// Floor 0: imports nothing.
package names
