// Package apipath reads and writes paths of the Kubernetes API, as the urlPath of a context entry holds them.
//
//	p, err := apipath.Parse("/api/v1/namespaces/team-a/pods?labelSelector=app%3Dx")
//	p.Resource, p.InNamespace() // pods, team-a
//	p.String()                  // built from the parts again
//
// A path is understood once and what is sent is built from the parts: nothing that was not understood (`..`, `%2e%2e`,
// `//`, `#`, a second escaping) can reach the server, so that what was checked is what is asked for.
//
// The package sends no requests; package world says which paths are within reach.
//
// Floor 0 (leaf): imports value.
package apipath
