// Package jsonpointer escapes and splits JSON pointers (RFC 6901).
//
//	jsonpointer.Escape("app.kubernetes.io/name")    // app.kubernetes.io~1name
//	jsonpointer.Split("/metadata/labels/team~1name") // metadata, labels, team/name
//
// Package patch applies operations at JSON pointers.
//
// Floor 0 (leaf): imports nothing of ours.
package jsonpointer
