// Package apipath parses and writes paths of the Kubernetes API, such as the urlPath of a context entry.
//
//	p, err := apipath.Parse("/api/v1/namespaces/team-a/pods?labelSelector=app%3Dx")
//	p.Resource, p.InNamespace() // pods, team-a
//	p.String()                  // built from the parts again
//
// A path is parsed once, and requests are built from its parts: what was checked is what is sent. Text that the parser does not
// understand (`..`, `%2e%2e`, `//`, `#`, a second escaping) never reaches the server.
//
// The package sends no requests; package world decides which paths a policy may read.
//
// Floor 0 (leaf): imports value.
package apipath
